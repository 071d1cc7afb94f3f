package forward_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/egress/egresstest"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// given is an expression that returns the provider's id of the event.
func given() map[string]forward.Value {
	return map[string]forward.Value{"x": func(call *effect.Call) (string, error) { return call.Event.EventID, nil }}
}

// What may be asked is decided before any connection. RFC 3986, 3.2 has the parts of an authority.
func TestAFetchStaysAtItsHosts(t *testing.T) {
	t.Parallel()
	names := egresstest.NewNameServer(t, "").Resolver() // no name exists, so that no server is asked
	for address, allowed := range map[string]bool{
		"https://api.example/v1":               true,
		"https://API.example/v1":               true,
		"https://api.example:443/v1":           true,
		"https://api.example:8443/v1":          false,
		"http://api.example/v1":                false,
		"https://a.shop.example/":              true,
		"https://a.b.shop.example/":            true,
		"https://shop.example/":                false,
		"https://evilshop.example/":            false,
		"https://api.example.evil.example/":    false,
		"https://api.example@evil.example/":    false,
		"https://evil.example/#@api.example":   false,
		"https://evil.example\\@api.example":   false,
		"//api.example/v1":                     false,
		"api.example/v1":                       false,
		"":                                     false,
		"https://" + strings.Repeat("a", 9000): false,
	} {
		f, err := forward.NewFetcher(forward.FetcherConfig{
			URL: "{x}", Values: given(), Hosts: []string{"api.example", "*.shop.example"}, Resolver: names,
		})
		if err != nil {
			t.Fatal(err)
		}
		_, r := f.Fetch(t.Context(), &effect.Call{Event: effect.Event{EventID: address}})
		refused := r.Outcome == effect.Dead && r.Reason == "address_refused"
		if refused == allowed {
			t.Errorf("%q: %+v, want it allowed: %t", address, r, allowed)
		}
		if address != "" && strings.Contains(r.Cause, address) {
			t.Errorf("%q is quoted: %s", address, r.Cause)
		}
	}
}

// A private address needs allow, unless the configuration writes it out. A token is read for each request.
func TestAFetchIsGuardedAndReadsItsToken(t *testing.T) {
	t.Parallel()
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization")+" "+r.Header.Get("X-Own")+" "+r.Method+" "+r.RequestURI)
		_, _ = w.Write([]byte(`{"a":1}`))
	}))
	defer server.Close()
	tokens := []string{"first", "second", "bad\ntoken", ""}
	asked := 0
	f, err := forward.NewFetcher(forward.FetcherConfig{
		URL: server.URL + "/{x}?y={x}", Values: given(), Headers: map[string]string{"X-Own": "own"},
		Bearer: func() (string, error) {
			asked++
			if asked > len(tokens) {
				return "", errors.New("its file cannot be read")
			}
			return tokens[asked-1], nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	call := &effect.Call{Event: effect.Event{EventID: "a b&c"}}
	for i := range 5 {
		answer, r := f.Fetch(t.Context(), call)
		if i < 2 && (r.Outcome != effect.Done || string(answer) != `{"a":1}`) || i >= 2 && (r.Outcome != effect.Retry || answer != nil) {
			t.Errorf("%d: %q, %+v", i, answer, r)
		}
		if strings.Contains(r.Cause, "token\n") || strings.Contains(r.Cause, "bad") {
			t.Errorf("the token is quoted: %s", r.Cause)
		}
	}
	want := "Bearer first own GET /a%20b%26c?y=a%20b%26c|Bearer second own GET /a%20b%26c?y=a%20b%26c"
	if strings.Join(got, "|") != want {
		t.Errorf("asked %q, want %q", got, want)
	}
	// The name server leads to the same server, which the configuration does not write out.
	named := strings.Replace(server.URL, "127.0.0.1", "api.example", 1)
	for allow, done := range map[string]effect.Outcome{"": effect.Retry, "127.0.0.0/8": effect.Done} {
		cfg := forward.FetcherConfig{URL: named + "/{x}", Values: given(), Resolver: egresstest.NewNameServer(t, "127.0.0.1").Resolver()}
		if allow != "" {
			cfg.Allow = []netip.Prefix{netip.MustParsePrefix(allow)}
		}
		f, err := forward.NewFetcher(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, r := f.Fetch(t.Context(), call); r.Outcome != done || r.Outcome == effect.Retry && r.Reason != "address_refused" {
			t.Errorf("allowed %q: %+v", allow, r)
		}
		f.Close()
	}
}
