package providers_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

func refusalOf(t *testing.T, p *providers.Provider, r *providers.Request) *providers.Refusal {
	t.Helper()
	_, err := p.Verify(r, callers)
	var refusal *providers.Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("%v, want a refusal", err)
	}
	return refusal
}

func TestDeclaredOperations(t *testing.T) {
	t.Parallel()
	p, err := operation(t, "header.Run-Id").WithOperations(map[string][]string{"charge": {"body.step"}, "notify": nil})
	if err != nil {
		t.Fatal(err)
	}
	if got := keyOf(t, p, call("one", "charge", `{"step":3}`)); got != "agent:charge:3" {
		t.Errorf("its own recipe makes %q", got)
	}
	if got := keyOf(t, p, call("one", "notify", `{}`, "Run-Id", "r1")); got != "agent:notify:r1" {
		t.Errorf("the source's recipe makes %q", got)
	}
	// A call of an undeclared operation is refused even if its key is wrong or missing.
	refusal := refusalOf(t, p, call("one", "chrage", `{}`))
	if refusal.Reason != providers.ReasonUnknownOperation || !strings.Contains(refusal.Detail, "did you mean charge") {
		t.Errorf("%+v", refusal)
	}
	if _, err := p.SessionCall(call("one", "chrage", `{}`, "Oncegate-Step", "s"), providers.Session{Credential: "agent", Run: "r"}); err == nil || !strings.Contains(err.Error(), "unknown_operation") {
		t.Errorf("under a session: %v", err)
	}
	// An unauthenticated caller learns nothing about the declared operations.
	if refusal := refusalOf(t, p, call("wrong", "chrage", `{}`)); refusal.Reason != providers.ReasonMismatch {
		t.Errorf("%+v", refusal)
	}
	for name, recipe := range map[string][]string{"Charge": nil, "a:b": nil, "charge": {"run"}} {
		if _, err := operation(t).WithOperations(map[string][]string{name: recipe}); err == nil {
			t.Errorf("operation %q with the recipe %q is taken", name, recipe)
		}
	}
}

// The draft makes a string of the key. Most callers send it bare.
func TestQuotedKeyIsTheBareOne(t *testing.T) {
	t.Parallel()
	p := operation(t)
	for header, want := range map[string]string{
		`run-42/step-3`:          `run-42/step-3`,
		`"run-42/step-3"`:        `run-42/step-3`,
		`"a\"b\\c"`:              `a"b\c`,
		`a"b\c`:                  `a"b\c`,
		`"open`:                  `"open`,
		`"a"b"`:                  `"a"b"`,
		`"a\b"`:                  `"a\b"`,
		`"a";level=1`:            `"a";level=1`,
		`"`:                      `"`,
		`""quoted`:               `""quoted`,
		strings.Repeat("x", 242): strings.Repeat("x", 242), // the longest
	} {
		d, err := p.Verify(call("one", "charge", `{}`, "Idempotency-Key", header), callers)
		if err != nil {
			t.Errorf("%s: %v", header, err)
			continue
		}
		if got := d.Items[0].EventID; got != "agent:charge:"+want || d.GivenKey == nil || d.GivenKey.Key != want {
			t.Errorf("%s is %s, %+v", header, got, d.GivenKey)
		}
	}
	for header, want := range map[string]providers.Problem{`""`: providers.ProblemMissingKey, `"a b"`: providers.ProblemInvalidKey, `"é"`: providers.ProblemInvalidKey} {
		if got := refusalOf(t, p, call("one", "charge", `{}`, "Idempotency-Key", header)); got.Problem != want {
			t.Errorf("%s: %+v, want %s", header, got, want)
		}
	}
}

func TestRecipeNumbersAndDefaults(t *testing.T) {
	t.Parallel()
	p := operation(t, "body.amount", "body.currency=EUR", "body.version")
	const same = "agent:charge:100:EUR:1"
	for _, body := range []string{
		`{"amount":100}`, `{"amount":100.00}`, `{"amount":1e2,"currency":"EUR"}`, `{"amount":1000E-1,"version":1.0}`, `{"amount":"100","version":"1","currency":null}`,
	} {
		if got := keyOf(t, p, call("one", "charge", body)); got != same {
			t.Errorf("%s has the key %q, want %q", body, got, same)
		}
	}
	for body, want := range map[string]string{
		`{"amount":100.01}`: "100.01:EUR:1", `{"amount":100,"version":2}`: "100:EUR:2", `{"amount":9007199254740993}`: "9007199254740993:EUR:1",
		`{"amount":-1.50,"currency":"USD"}`: "-1.5:USD:1", `{"amount":1e999999999}`: "1e999999999:EUR:1",
	} {
		if got := keyOf(t, p, call("one", "charge", body)); got != "agent:charge:"+want {
			t.Errorf("%s has the key %q, want %q", body, got, want)
		}
	}
	for body, want := range map[string]string{
		`{}`: "field body.amount of the key is missing", `{"amount":[1]}`: "field body.amount", `{"amount":0.` + strings.Repeat("1", 300) + `}`: "too long",
	} {
		if got := refusalOf(t, p, call("one", "charge", body)); !strings.Contains(got.Detail, want) {
			t.Errorf("%s: %q, want %q", body, got.Detail, want)
		}
	}
}

// TestJSONAsAForm checks the advice for curl, which sends the content type of a form by default.
func TestJSONAsAForm(t *testing.T) {
	t.Parallel()
	p := operation(t, "body.step")
	r := call("one", "charge", ` {"step":3}`, "Content-Type", "application/x-www-form-urlencoded")
	if got := refusalOf(t, p, r); !strings.Contains(got.Detail, "send Content-Type: application/json") {
		t.Errorf("%q", got.Detail)
	}
	r = call("one", "charge", `step=3`, "Content-Type", "application/x-www-form-urlencoded")
	if got := refusalOf(t, p, r); strings.Contains(got.Detail, "application/json") {
		t.Errorf("%q", got.Detail)
	}
}
