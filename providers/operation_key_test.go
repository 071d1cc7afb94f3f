package providers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

func operation(t *testing.T, fields ...string) *providers.Provider {
	t.Helper()
	cat := catalogtest.Load(t)
	p := cat["operation"]
	if len(fields) > 0 {
		var err error
		if p, err = p.WithRecipe(fields); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

var callers = []providers.Secret{{Name: "agent", Value: []byte("one")}, {Name: "clerk", Value: []byte("two")}}

func call(secret, name, body string, headers ...string) *providers.Request {
	h := http.Header{"Authorization": {"Bearer " + secret}, "Oncegate-Operation": {name}, "Content-Type": {"application/json"}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &providers.Request{Method: http.MethodPost, URL: "http://x/in/agents?tenant=t1", Header: h, Body: []byte(body), ReceivedAt: time.Unix(1700000000, 0)}
}

func keyOf(t *testing.T, p *providers.Provider, r *providers.Request) string {
	t.Helper()
	d, err := p.Verify(r, callers)
	if err != nil {
		t.Fatal(err)
	}
	return d.Items[0].EventID
}

// A key is made of what the call says, within its credential and operation.
func TestRecipe(t *testing.T) {
	t.Parallel()
	p := operation(t, "header.Run-Id", "body.step", "body.at.tick", "query.tenant")
	const body = `{"step":"charge","at":{"tick":7},"other":1}`
	if got := keyOf(t, p, call("one", "pay", body, "Run-Id", "run 42:%")); got != "agent:pay:run%2042%3a%25:charge:7:t1" {
		t.Errorf("the key is %q", got)
	}
	// The caller's own key has no say in it.
	if got := keyOf(t, p, call("two", "refund", body, "Run-Id", "r", "Idempotency-Key", "k")); got != "clerk:refund:r:charge:7:t1" {
		t.Errorf("the key is %q", got)
	}
	long := strings.Repeat("x", 300)
	a := keyOf(t, p, call("one", "pay", body, "Run-Id", long))
	b := keyOf(t, p, call("one", "pay", body, "Run-Id", long+"x"))
	if len(a) > 255 || a == b || a != keyOf(t, p, call("one", "pay", body, "Run-Id", long)) || !strings.HasPrefix(a, "agent:pay:%sha256-") {
		t.Errorf("long keys are %q and %q", a, b)
	}
	for name, r := range map[string]*providers.Request{
		"no header":   call("one", "pay", body),
		"no field":    call("one", "pay", `{"step":"charge"}`, "Run-Id", "r"),
		"no document": call("one", "pay", `{"step"`, "Run-Id", "r"),
		"not JSON":    call("one", "pay", `hello`, "Run-Id", "r"),
		"a mapping":   call("one", "pay", `{"step":{"a":1},"at":{"tick":7}}`, "Run-Id", "r"),
		"empty":       call("one", "pay", `{"step":"","at":{"tick":7}}`, "Run-Id", "r"),
		"twice":       call("one", "pay", `{"step":"a","step":"b","at":{"tick":7}}`, "Run-Id", "r"),
	} {
		_, err := p.Verify(r, callers)
		if refusal, ok := err.(*providers.Refusal); !ok || refusal.Reason != providers.ReasonUnidentified { //nolint:errorlint // always that type
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecipePartsStayApart checks that two calls that differ in a field have different keys, for
// any values.
func TestRecipePartsStayApart(t *testing.T) {
	t.Parallel()
	p := operation(t, "body.a", "body.b")
	parts := []string{"x", "x:y", "y", "x%3ay", "x%3a", ":y", "%", "%3a", "é", " "}
	seen := map[string]string{}
	for _, a := range parts {
		for _, b := range parts {
			key := keyOf(t, p, call("one", "pay", `{"a":"`+a+`","b":"`+b+`"}`))
			if other, twice := seen[key]; twice {
				t.Errorf("%q + %q has the key of %s: %q", a, b, other, key)
			}
			seen[key] = a + " + " + b
			for i := range len(key) {
				if key[i] <= 0x20 || key[i] >= 0x7f {
					t.Errorf("%q is not visible ASCII", key)
				}
			}
		}
	}
}

func TestRecipeRefuses(t *testing.T) {
	t.Parallel()
	p := operation(t)
	for want, fields := range map[string][]string{
		"1 to 8 fields":         {},
		"is none of header":     {"run"},
		"is there twice":        {"body.a", "body.a"},
		"is a credential":       {"header.authorization"},
		"does not name":         {"header.a b"},
		"is not a JSON path":    {"body.a[0]"},
		"field \"cookie.a\" is": {"body.ok", "cookie.a"},
	} {
		if _, err := p.WithRecipe(fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", fields, err, want)
		}
	}
	cat := catalogtest.Load(t)
	if _, err := cat["stripe"].WithRecipe([]string{"body.id"}); err == nil {
		t.Error("a provider of deliveries took a recipe")
	}
}

func TestCaller(t *testing.T) {
	t.Parallel()
	p := operation(t)
	r := &providers.Request{Method: http.MethodGet, Header: http.Header{"Authorization": {"Bearer two"}}, ReceivedAt: time.Unix(1700000000, 0)}
	if name, err := p.Caller(r, callers); err != nil || name != "clerk" {
		t.Errorf("%q, %v", name, err)
	}
	r.Header.Set("Authorization", "Bearer three")
	if _, err := p.Caller(r, callers); err == nil {
		t.Error("a wrong credential was taken")
	}
}
