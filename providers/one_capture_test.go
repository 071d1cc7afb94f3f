package providers_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// manyByDesign lists the entries in which one captured delivery can become several events, and why
// nothing in the request can prevent it.
var manyByDesign = map[string]string{
	"segment": "the signature of a batch covers its first event only; the others are recorded as unusable and act on nothing",
}

// TestOneCapture takes one valid delivery of every provider and changes it in many ways, as somebody
// would who has captured it and has no secret. Each changed request must be refused, or must have
// the identity of the captured one. If it has another identity, its body must be the same and the
// delivery must say that its id is not signed: the gate then reports a suspected replay.
// Otherwise one captured delivery would become many events.
func TestOneCapture(t *testing.T) {
	t.Parallel()
	loaded := catalogtest.Load(t)
	began, tried := time.Now(), 0
	for _, name := range loaded.Names() {
		p := loaded[name]
		if p.Spec().Verify.Authenticates == "origin" {
			continue // whoever has a request has its credential, and can write any body
		}
		vectors, err := providertest.Vectors(testdata.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		captured := 0
		for i := range vectors {
			v := &vectors[i]
			if slices.Contains(v.Settings["components"], "none") {
				continue // the source chose that nothing of the content is signed
			}
			if !v.Valid || v.Kind == "handshake" || v.Spec != "" || captured == 3 {
				continue
			}
			bound, err := p.Bind(providers.Binding{Settings: v.Settings, Fetcher: providertest.Keys(v.Keys)})
			if err != nil {
				t.Fatalf("%s/%s: %v", name, v.Case, err)
			}
			delivery, err := bound.Verify(v.Request(), v.Secrets())
			if err != nil {
				continue // it needs another time
			}
			if len(v.Body) == 0 || v.Method == http.MethodGet {
				continue // there is no event in it, or no sender makes such a request
			}
			captured++
			known := identities(v.Request(), delivery)
			for label, req := range captures(v.Request(), p) {
				if !receives(p, req) {
					continue
				}
				tried++
				got, err := bound.Verify(req, v.Secrets())
				if err != nil {
					continue
				}
				for id, unusable := range identities(req, got) {
					_, same := known[id]
					level := strings.HasPrefix(id, "level:")
					// Reading fails on the same bytes under one key, however they are presented.
					unread := unusable && id == unusableID(v.Request().Payload())
					replay := got.IDUnsigned && bytes.Equal(req.Payload(), v.Request().Payload())
					if !same && !level && !replay && !unread && (manyByDesign[name] == "" || !unusable) {
						t.Errorf("%s/%s, %s: becomes another event, %s", name, v.Case, label, id)
					}
				}
			}
		}
	}
	if tried < 5000 {
		t.Errorf("only %d variants were tried", tried)
	}
	t.Logf("%d variants in %v", tried, time.Since(began).Round(time.Millisecond))
}

// identities returns the keys under which the gate records the events of a delivery, and for each
// whether the event is unusable.
func identities(req *providers.Request, d *providers.Delivery) map[string]bool {
	out := map[string]bool{}
	for i := range d.Items {
		item := &d.Items[i]
		if item.Transmission != "" { // the second key, which decides whatever the first one is
			out["transmission "+item.Transmission] = false
			continue
		}
		id := item.EventID
		if item.Unusable != "" {
			id = unusableID(req.Payload()[item.Offset : item.Offset+item.Length])
		}
		out[id] = item.Unusable != ""
	}
	return out
}

// unusableID returns the key under which the gate records an event that cannot be used.
func unusableID(event []byte) string {
	sum := sha256.Sum256(event)
	return "~" + hex.EncodeToString(sum[:])
}

// receives reports whether the receiver reads a request at all, by the limits of its provider.
func receives(p *providers.Provider, req *providers.Request) bool {
	limits := p.Limits()
	if !slices.Contains(limits.Deliveries, req.Method) {
		return false
	}
	if len(limits.ContentTypes) == 0 || req.Method == http.MethodGet {
		return true
	}
	media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	return err == nil && slices.Contains(limits.ContentTypes, media)
}

// spoiled are bodies that a forger puts in the place of a captured one.
var spoiled = []string{"", "{", "null", "[]", "{}", "\x00", "not json", `{"id":"forged"}`, `[{"id":"forged"},{"id":"forged2"}]`, "id=forged", `{"type":"a\u0000b","action":"a\u0000b","event":"a\u0000b"}`, `{"id":1,"id":2}`}

// captures returns changed copies of a captured request, by what was changed.
func captures(req *providers.Request, p *providers.Provider) map[string]*providers.Request {
	out := map[string]*providers.Request{}
	put := func(label string, change func(r *providers.Request)) {
		r := *req
		r.Header, r.Body = req.Header.Clone(), bytes.Clone(req.Body)
		change(&r)
		out[label] = &r
	}
	for i, text := range spoiled {
		put(fmt.Sprintf("body replaced by %q", text), func(r *providers.Request) { r.Body = []byte(text) })
		put(fmt.Sprintf("body preceded by %q", text), func(r *providers.Request) { r.Body = append([]byte(text), r.Body...) })
		put(fmt.Sprintf("body followed by %q", text), func(r *providers.Request) { r.Body = append(r.Body, text...) })
		put(fmt.Sprintf("parameter %d added", i), func(r *providers.Request) { r.URL = added(r.URL, "forged"+strconv.Itoa(i)+"="+url.QueryEscape(text)) })
	}
	for _, edit := range []struct{ name, old, new string }{{"space", ":", ": "}, {"brace", "{", "{ "}, {"member", "{", `{"forged":1,`}, {"digit", "1", "2"}, {"letter", "e", "f"}} {
		put("body with another "+edit.name, func(r *providers.Request) { r.Body = bytes.Replace(r.Body, []byte(edit.old), []byte(edit.new), 1) })
	}
	names := slices.Collect(maps.Keys(req.Header))
	for _, field := range headersRead(p) {
		names = append(names, http.CanonicalHeaderKey(field))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		value := req.Header.Get(name)
		for _, other := range []string{"", "forged", value + "0", value + " ", " " + value, strings.ToUpper(value), strings.ToLower(value), value + "," + value, "0" + value} {
			put(fmt.Sprintf("header %s as %q", name, other), func(r *providers.Request) { r.Header.Set(name, other) })
		}
		put("header "+name+" left out", func(r *providers.Request) { r.Header.Del(name) })
		put("header "+name+" twice", func(r *providers.Request) { r.Header.Add(name, value) })
		// Characters move between a header and the body, or the address, in both directions.
		for n := 1; n <= 4 && n < len(value); n++ {
			put(fmt.Sprintf("the last %d of header %s before the body", n, name), func(r *providers.Request) {
				r.Header.Set(name, value[:len(value)-n])
				r.Body = append([]byte(value[len(value)-n:]), r.Body...)
			})
			put(fmt.Sprintf("the first %d of header %s after the body", n, name), func(r *providers.Request) {
				r.Header.Set(name, value[n:])
				r.Body = append(r.Body, value[:n]...)
			})
			if n < len(req.Body) {
				put(fmt.Sprintf("the first %d of the body after header %s", n, name), func(r *providers.Request) {
					r.Header.Set(name, value+string(r.Body[:n]))
					r.Body = r.Body[n:]
				})
				put(fmt.Sprintf("the last %d of the body before header %s", n, name), func(r *providers.Request) {
					r.Header.Set(name, string(r.Body[len(r.Body)-n:])+value)
					r.Body = r.Body[:len(r.Body)-n]
				})
			}
			for _, next := range names {
				if next != name {
					put(fmt.Sprintf("the last %d of header %s before header %s", n, name, next), func(r *providers.Request) {
						r.Header.Set(name, value[:len(value)-n])
						r.Header.Set(next, value[len(value)-n:]+r.Header.Get(next))
					})
				}
			}
		}
	}
	for _, kind := range []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""} {
		put("content type "+kind, func(r *providers.Request) { r.Header.Set("Content-Type", kind) })
	}
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		put("method "+method, func(r *providers.Request) { r.Method = method })
	}
	return out
}

func added(address, parameter string) string {
	if strings.Contains(address, "?") {
		return address + "&" + parameter
	}
	return address + "?" + parameter
}

// headersRead returns the headers from which the provider reads anything about an event.
func headersRead(p *providers.Provider) []string {
	var out []string
	var walk func(f *providers.Field)
	walk = func(f *providers.Field) {
		if f.Header != "" {
			out = append(out, f.Header)
		}
		for i := range f.Join {
			walk(&f.Join[i])
		}
	}
	s := p.Spec()
	for _, fields := range [][]providers.Field{s.Identity.Candidates, s.Identity.Hash, s.Identity.With, s.Type, s.OccurredAt} {
		for i := range fields {
			walk(&fields[i])
		}
	}
	return out
}
