package providertest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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

// TestIdentity proves for every file of the catalogue, with its example and every delivery of its
// test data, that no two events are treated as one. An event is the payload of a delivery or, in a
// batch, one element of it. If two events differ in a member that is not volatile (another value, a
// missing member, a new one, at any depth), they have different ids:
//
//   - without a documented id, always: every change of every member results in an id that
//     no other change results in, and changes no id of the batch's other events;
//   - with a documented id, unless both contain the same one. The sender then says that they
//     are one event, and the gate keeps the second as a conflict. A change of the field
//     from which the id is read results in another id;
//   - in level, every delivery has its own id, even with the same payload.
//
// Two events that differ only in volatile members have one id, because they are an event and its
// retry. A volatile member from which an id is read is not changed in this test, because in a retry
// it names the previous delivery.
func TestIdentity(t *testing.T) {
	t.Parallel()
	loaded := catalogtest.Load(t)
	for name, p := range loaded {
		if p.IsOperation() {
			continue // the caller names the event, and differences are refused
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := 0
			for _, req := range deliveries(t, name, p) {
				items := p.Inspect(req).Items
				if hasTwins(items) {
					continue // a change to one of two equal events makes the other the first of its kind
				}
				for i := range items {
					if items[i].Unusable == "" {
						seen++
						examineIdentity(t, p, req, items, i)
					}
				}
			}
			if seen == 0 {
				t.Error("no event was examined")
			}
		})
	}
}

// hasTwins reports whether a batch has equal events. The digest that identifies such an event ends in
// its number among its equals.
func hasTwins(items []providers.Item) bool {
	return slices.ContainsFunc(items, func(item providers.Item) bool {
		digest, isDigest := strings.CutPrefix(item.EventID, "sha256:")
		return isDigest && strings.Contains(digest, ".")
	})
}

// deliveries are the requests that are examined: valid ones, and the example.
func deliveries(t *testing.T, name string, p *providers.Provider) []*providers.Request {
	t.Helper()
	vectors, err := providertest.Vectors(testdata.Files, name)
	if err != nil {
		t.Fatal(err)
	}
	var out []*providers.Request
	for i := range vectors {
		if v := &vectors[i]; v.Valid && v.Kind != "handshake" && v.Spec == "" {
			out = append(out, v.Request())
		}
	}
	payloads, err := providertest.Payloads(testdata.Files, name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range payloads {
		out = append(out, payloads[i].Request())
	}
	spec := p.Spec()
	example := &providers.Request{
		Method: http.MethodPost, URL: "https://hooks.example.com/in/" + name, Header: http.Header{}, ReceivedAt: time.Unix(1_790_000_000, 0).UTC(),
		Body: []byte(strings.NewReplacer("{{id}}", "evt_1", "{{now}}", "1790000000", "{{now_rfc3339}}", "2026-09-21T13:33:20Z").Replace(spec.Example.Body)),
	}
	for header, value := range spec.Example.Headers {
		example.Header.Set(header, value)
	}
	return append(out, example)
}

// examineIdentity changes one event of a delivery in every way.
func examineIdentity(t *testing.T, p *providers.Provider, req *providers.Request, items []providers.Item, at int) {
	t.Helper()
	before := items[at]
	if strings.HasPrefix(before.EventID, "level:") {
		later := *req
		later.ReceivedAt = req.ReceivedAt.Add(time.Second)
		if again := p.Inspect(&later).Items; again[at].EventID == before.EventID {
			t.Errorf("%s: a second delivery is the same event", before.EventID)
		}
		return
	}
	documented := !strings.HasPrefix(before.EventID, "sha256:")
	ids := map[string]string{before.EventID: "the event as it is"}
	for _, c := range changes(t, p, req, before) {
		after := p.Inspect(c.req).Items
		if len(after) != len(items) {
			t.Errorf("%s: %d events of %d", c, len(after), len(items))
			continue
		}
		for i := range after {
			if i != at && after[i].EventID != items[i].EventID {
				t.Errorf("%s: changes the id of another event", c)
			}
		}
		id := after[at].EventID
		other, taken := ids[id]
		switch {
		case c.volatile && named(p, c.path): // a new one names the one before it
		case c.volatile && id != before.EventID:
			t.Errorf("%s: a retry is another event", c)
		case c.volatile || after[at].Unusable != "":
		case documented && (id != before.EventID || !named(p, c.path) || len(p.Spec().Identity.Candidates) > 1):
		case taken:
			t.Errorf("%s: has the id %s of %s", c, id, other)
		default:
			ids[id] = c.String()
		}
	}
}

// named reports whether an id is read at the path.
func named(p *providers.Provider, path []string) bool {
	var reads func(f providers.Field) bool
	reads = func(f providers.Field) bool {
		return f.JSON == strings.Join(path, ".") || len(path) == 1 && f.Form == path[0] || slices.ContainsFunc(f.Join, reads)
	}
	return slices.ContainsFunc(p.Spec().Identity.Candidates, func(f providers.Field) bool { return f.If == "" && reads(f) })
}

// change is a delivery of which one event differs in one member.
type change struct {
	what     string
	path     []string
	volatile bool
	req      *providers.Request
}

func (c change) String() string { return c.what + " " + strings.Join(c.path, ".") }

// changes are all the deliveries that differ from one in one member of an event.
func changes(t *testing.T, p *providers.Provider, req *providers.Request, item providers.Item) []change {
	t.Helper()
	spec := p.Spec()
	payload := req.Payload()
	raw := payload[item.Offset : item.Offset+item.Length]
	bodiless := req.Method == http.MethodGet && len(req.Body) == 0
	form := strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded") || bodiless
	var out []change
	add := func(what string, path []string, body []byte) {
		next := *req
		if bodiless {
			address, _, _ := strings.Cut(req.URL, "?")
			next.URL = address + "?" + string(body)
		} else {
			next.Body = body
		}
		next.Header = req.Header.Clone()
		out = append(out, change{what, path, volatilePath(spec.Volatile, path), &next})
	}
	splice := func(event []byte) []byte {
		return slices.Concat(payload[:item.Offset], event, payload[item.Offset+item.Length:])
	}
	switch {
	case form && spec.Split.Form != "":
		text, err := url.QueryUnescape(string(raw))
		if err != nil {
			t.Fatal(err)
		}
		eachChange(t, []byte(text), func(what string, path []string, event []byte) {
			add(what, path, splice([]byte(url.QueryEscape(string(event)))))
		})
	case form:
		values, err := url.ParseQuery(string(raw))
		if err != nil {
			t.Fatal(err)
		}
		edit := func(what string, path []string, apply func(url.Values)) {
			edited := maps.Clone(values)
			apply(edited)
			add(what, path, []byte(edited.Encode()))
		}
		edit("add", []string{"zz added"}, func(v url.Values) { v.Set("zz added", "1") })
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if name == spec.Body.FormJSON {
				eachChange(t, []byte(values.Get(name)), func(what string, path []string, event []byte) {
					edit(what, path, func(v url.Values) { v.Set(name, string(event)) })
				})
				continue
			}
			edit("change", []string{name}, func(v url.Values) { v.Set(name, v.Get(name)+"x") })
			edit("remove", []string{name}, func(v url.Values) { v.Del(name) })
		}
	case json.Valid(raw):
		eachChange(t, raw, func(what string, path []string, event []byte) { add(what, path, splice(event)) })
	case len(raw) > 0 && !p.Wraps() && !strings.HasPrefix(req.Header.Get("Content-Type"), "multipart/"): // the bytes of a token are no event
		add("change", []string{"a byte"}, splice(append(bytes.Clone(raw), 'x')))
	}
	// The members are one part of an event; what its type is read from is another.
	for i := range spec.Type {
		name := spec.Type[i].Header
		if name != "" && req.Header.Get(name) != "" && !slices.Contains(spec.Volatile, name) {
			add("header", []string{name}, payload)
			out[len(out)-1].req.Header.Set(name, "x-"+req.Header.Get(name))
		}
	}
	return out
}

// volatilePath reports whether a member is at a volatile path or below one.
func volatilePath(volatile []string, path []string) bool {
	return slices.ContainsFunc(volatile, func(pattern string) bool {
		names := strings.Split(pattern, ".")
		if len(names) > len(path) {
			return false
		}
		for i, name := range names {
			if name != "*" && name != path[i] {
				return false
			}
		}
		return true
	})
}

// eachChange changes each member of a document, takes it away and adds one to each
// object and each list.
func eachChange(t *testing.T, doc []byte, yield func(what string, path []string, changed []byte)) {
	t.Helper()
	decode := func() any {
		d := json.NewDecoder(bytes.NewReader(doc))
		d.UseNumber()
		var value any
		if err := d.Decode(&value); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		return value
	}
	var paths [][]string
	var collect func(value any, path []string)
	collect = func(value any, path []string) {
		paths = append(paths, path)
		switch v := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				collect(v[name], append(slices.Clone(path), name))
			}
		case []any:
			for i := range v {
				collect(v[i], append(slices.Clone(path), strconv.Itoa(i)))
			}
		}
	}
	collect(decode(), nil)
	for _, path := range paths {
		for _, what := range []string{"change", "remove", "add"} {
			edited, ok := edit(decode(), path, what)
			if !ok {
				continue
			}
			text, err := json.Marshal(edited)
			if err != nil {
				t.Fatal(err)
			}
			at := path
			if what == "add" {
				at = append(slices.Clone(path), "zz_added")
			}
			yield(what, at, text)
		}
	}
}

// edit does one thing at one path; ok is false where it cannot be done.
func edit(value any, path []string, what string) (any, bool) {
	if len(path) == 0 {
		switch v := value.(type) {
		case map[string]any:
			if what == "add" {
				v["zz_added"] = true
				return v, true
			}
		case []any:
			if what == "add" {
				return append(v, "zz_added"), true
			}
		case string:
			return v + "x", what == "change"
		case json.Number:
			if v == "0" {
				return json.Number("7"), what == "change"
			}
			return json.Number(v.String() + "1"), what == "change"
		case bool:
			return !v, what == "change"
		case nil:
			return "x", what == "change"
		}
		return value, false
	}
	switch v := value.(type) {
	case map[string]any:
		if len(path) == 1 && what == "remove" {
			delete(v, path[0])
			return v, true
		}
		inner, ok := edit(v[path[0]], path[1:], what)
		v[path[0]] = inner
		return v, ok
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil {
			panic(fmt.Sprint("no element ", path))
		}
		if len(path) == 1 && what == "remove" {
			return slices.Delete(v, i, i+1), true
		}
		inner, ok := edit(v[i], path[1:], what)
		v[i] = inner
		return v, ok
	}
	return value, false
}
