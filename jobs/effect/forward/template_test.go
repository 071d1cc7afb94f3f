package forward_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// members gives the values of an address from the members of a JSON body, by their names.
func members(names ...string) map[string]forward.Value {
	out := map[string]forward.Value{}
	for _, name := range names {
		out[name] = func(call *effect.Call) (string, error) {
			var body map[string]string
			if err := json.Unmarshal(call.Event.Body, &body); err != nil {
				return "", err
			}
			value, ok := body[name]
			if !ok {
				return "", errMissing
			}
			return value, nil
		}
	}
	return out
}

var errMissing = errors.New("a field is missing")

// recorder is a target that tells of each request once where it went, as it was written.
func recorder(tb testing.TB) (*httptest.Server, func() string) {
	tb.Helper()
	uris := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { uris <- r.RequestURI }))
	tb.Cleanup(server.Close)
	return server, func() string {
		select {
		case uri := <-uris:
			return uri
		default:
			return ""
		}
	}
}

func callOf(tb testing.TB, body map[string]string) *effect.Call {
	tb.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		tb.Fatal(err)
	}
	call := effecttest.Call(1)
	call.Event.Body = text
	return call
}

// A server sees the value as it was, in its own place, and nothing else of the address
// changes: net/url reads what arrives, and knows nothing of how it was written.
func TestValuesInAnAddressArriveAsTheyWere(t *testing.T) {
	t.Parallel()
	target, got := recorder(t)
	f := newForward(t, forward.Config{
		URL: target.URL + "/orders/{id}/lines?fixed=1&q={ q }", Values: members("id", "q"), Method: "PUT",
	})
	for _, value := range []string{
		"42", "%2f", "%252F", "a@b", "#", "?", "a?b=c#d", "a&b=c", "a+b c", ";", "..;", "...", "ä", "日本", "\u202e", "😀", "~-_.", "'\"<>{}", strings.Repeat("x", 1024),
	} {
		call := callOf(t, map[string]string{"id": value, "q": value + "/../\n\x00\\"})
		address, err := f.Address(call)
		if len(value) == 1024 && err != nil { // with what follows it the second value is too long
			call = callOf(t, map[string]string{"id": value, "q": "y"})
			address, err = f.Address(call)
		}
		if err != nil {
			t.Errorf("%q: %v", value, err)
			continue
		}
		call.Address = address
		if got := f.Send(t.Context(), call); got.Outcome != effect.Done {
			t.Fatalf("%q: %+v", value, got)
		}
		uri := got()
		u, err := url.ParseRequestURI(uri)
		if err != nil {
			t.Fatalf("%q: %q: %v", value, uri, err)
		}
		steps := strings.Split(u.EscapedPath(), "/")
		id, err := url.PathUnescape(steps[2])
		if len(steps) != 4 || steps[1] != "orders" || steps[3] != "lines" || err != nil || id != value {
			t.Errorf("%q: the path is %q", value, uri)
		}
		var sent map[string]string
		if err := json.Unmarshal(call.Event.Body, &sent); err != nil {
			t.Fatal(err)
		}
		if q := u.Query(); len(q) != 2 || q.Get("fixed") != "1" || q.Get("q") != sent["q"] {
			t.Errorf("%q: the query is %q", value, u.RawQuery)
		}
	}
}

// What could lead elsewhere, or names nothing, is refused, and the reason quotes nothing of it.
func TestValuesThatFitNoAddress(t *testing.T) {
	t.Parallel()
	f := newForward(t, forward.Config{URL: "http://127.0.0.1:9/a/{id}/.{dot}/%2e{enc}?q={q}", Values: members("id", "q", "dot", "enc")})
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"fine":                  {map[string]string{}, ""},
		"missing":               {map[string]string{"id": "\x00"}, "id: a field is missing"},
		"empty":                 {map[string]string{"id": ""}, "id: the value is empty"},
		"empty in the query":    {map[string]string{"q": ""}, "q: the value is empty"},
		"one dot":               {map[string]string{"id": "."}, "the value would make . or .. a step of the path"},
		"two dots":              {map[string]string{"id": ".."}, "the value would make . or .. a step of the path"},
		"a dot behind a dot":    {map[string]string{"dot": "."}, "the value would make . or .. a step of the path"},
		"a dot behind %2e":      {map[string]string{"enc": "."}, "the value would make . or .. a step of the path"},
		"a slash":               {map[string]string{"id": "1/refund"}, "id: the value has a slash or a backslash, which would change the path"},
		"a climb":               {map[string]string{"id": "../../admin"}, "id: the value has a slash or a backslash, which would change the path"},
		"a backslash":           {map[string]string{"id": `..\admin`}, "id: the value has a slash or a backslash, which would change the path"},
		"a line break":          {map[string]string{"id": "1\r\nHost: evil"}, "id: the value has a control character"},
		"NUL":                   {map[string]string{"id": "1\x00"}, "id: the value has a control character"},
		"too long":              {map[string]string{"id": strings.Repeat("x", 1025)}, "id: the value is longer than 1024 bytes"},
		"too long together":     {map[string]string{"id": strings.Repeat("\u00e4", 512), "q": strings.Repeat("\u00e4", 512), "dot": strings.Repeat("\u00e4", 512)}, "the address would be longer than 8000 bytes"},
		"dots are fine in text": {map[string]string{"id": "a..b", "q": ".."}, ""},
	} {
		body := map[string]string{"id": "1", "q": "x", "dot": "x", "enc": "x"}
		for key, value := range c.change {
			if body[key] = value; value == "\x00" {
				delete(body, key)
			}
		}
		address, err := f.Address(callOf(t, body))
		switch {
		case c.want == "" && (err != nil || address == ""):
			t.Errorf("%s: %q, %v", name, address, err)
		case c.want != "" && (err == nil || err.Error() != c.want || address != ""):
			t.Errorf("%s: %q, %v, want %s", name, address, err, c.want)
		}
	}
}

// Values stand in the path and the query. Anywhere else an event would say who is asked.
func TestTemplatesAreChecked(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://api.example/orders/{id}":       "",
		"https://api.example/{id}?a={id}&b={q}": "",
		"https://api.example?id={id}":           "",
		"https://{id}/":                         "url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		"https://{id}.example/":                 "url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		"https://api.example:{id}/":             "url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		"https://user:{id}@api.example/":        "url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		"https://api.example{id}/":              "url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		"{id}://api.example/":                   "url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		"{id}":                                  "url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		"https://api.example/#{id}":             "url must not have a fragment",
		"https://api.example/../{id}":           "url: with values, . and .. may not be steps of the path",
		"https://api.example/%2e%2E/{id}":       "url: with values, . and .. may not be steps of the path",
		"https://api.example/%2{id}":            "url cannot be read",
		"https://api.example/{id":               "url: a { has no }; write a literal brace as %7B or %7D",
		"https://api.example/id}":               "url: a } has no {; write a literal brace as %7B or %7D",
		"https://api.example/{ }":               "url: there is no expression between { and }",
		"https://api.example/{other}":           "url: an expression in braces has no value; write a literal brace as %7B or %7D",
		"ftp://api.example/{id}":                "url: want http or https",
	} {
		_, err := forward.New(forward.Config{URL: address, Values: members("id", "q")})
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
	literals, expressions, err := forward.SplitAddress(`https://a/{body["}{"] + '\'}'}/{ {"a": 1}.a }?x`)
	if err != nil || strings.Join(literals, "|") != "https://a/|/|?x" || strings.Join(expressions, "|") != `body["}{"] + '\'}'|{"a": 1}.a` {
		t.Errorf("%q, %q, %v", literals, expressions, err)
	}
}

// An attempt goes to the address that was made for it, and to no server but the target's.
func TestAnAttemptGoesWhereItsAddressSays(t *testing.T) {
	t.Parallel()
	target, uri := recorder(t)
	f := newForward(t, forward.Config{URL: target.URL + "/{id}", Values: members("id")})
	call := callOf(t, map[string]string{"id": "2"})
	for address, reached := range map[string]bool{
		target.URL + "/1": true, target.URL + "/old/path?x=1": true,
		"": false, "http://127.0.0.1:1/1": false, strings.Replace(target.URL, "http:", "https:", 1) + "/1": false,
		strings.Replace(target.URL, "://", "://u:p@", 1) + "/1": false, "http://example.com/1": false, "://": false,
	} {
		call.Address = address
		got := f.Send(t.Context(), call)
		went := uri()
		if sent := went != ""; sent != reached || sent != (got.Outcome == effect.Done) || f.Reaches(address) != reached {
			t.Errorf("%s: %+v, sent %t, want %t", address, got, sent, reached)
		} else if sent && target.URL+went != address {
			t.Errorf("it went to %s, want %s", went, address)
		}
		if !reached && (got.Outcome != effect.Dead || got.Reason != reasons.Render) {
			t.Errorf("%s: %+v, want dead", address, got)
		}
	}
}

// The guard of what leaves looks at the host, which no value can change.
func TestValuesDoNotPassTheGuard(t *testing.T) {
	t.Parallel()
	f := newForward(t, forward.Config{URL: "http://169.254.169.254/{id}", Values: members("id")})
	call := callOf(t, map[string]string{"id": "@127.0.0.1"})
	address, err := f.Address(call)
	if err != nil {
		t.Fatal(err)
	}
	call.Address = address
	if got := f.Send(t.Context(), call); got.Outcome != effect.Retry || got.Reason != reasons.Address {
		t.Errorf("%+v, want it refused by its address", got)
	}
}
