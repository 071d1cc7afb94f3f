package expression_test

import (
	"errors"
	"testing"

	"github.com/oncegate/oncegate/internal/expression"
)

// The answer of a fetch is a value like the body. Without one, an expression that reads it is not evaluated. Only
// expressions that are evaluated after the fetch can name it.
func TestFetched(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]any{
		"fetched.amount + 1": int64(8), "fetched.?absent.orValue('none')": "none", "[fetched.id, body.id]": nil,
	} {
		p, err := expression.CompileWithFetched(source, expression.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !p.ReadsFetched() {
			t.Errorf("%s: it reads the answer", source)
		}
		got, err := p.Value(&expression.Input{Body: []byte(`{"id":1}`), Fetched: []byte(`{"amount":7,"id":2}`)})
		if err != nil || want != nil && got != want {
			t.Errorf("%s: %v, %v", source, got, err)
		}
		if _, err := p.Value(&expression.Input{Body: []byte(`{"id":1}`)}); !errors.Is(err, expression.ErrMissing) {
			t.Errorf("%s without an answer: %v", source, err)
		}
	}
	for source, reads := range map[string]bool{"body.fetched": false, "{'fetched': 1}": false, "key + fetched.a": true} {
		p, err := expression.CompileWithKey(source, expression.Value)
		if err != nil || p.ReadsFetched() != reads {
			t.Errorf("%s: %v, want that it reads the answer: %t", source, err, reads)
		}
	}
	if _, err := expression.Compile("fetched.id", expression.Value); err == nil {
		t.Error("an expression that is evaluated without a fetch names its answer")
	}
}

// A form has its first values, as https://url.spec.whatwg.org/#urlencoded-parsing reads it, and only with its content
// type.
func TestForm(t *testing.T) {
	t.Parallel()
	p, err := expression.Compile("form.id", expression.Value)
	if err != nil {
		t.Fatal(err)
	}
	const body = "id=tr_7UhSN1zuXS+%26&id=second"
	for _, in := range []*expression.Input{
		{Body: []byte(body), ContentType: "application/x-www-form-urlencoded; charset=utf-8"},
		{Body: []byte(body), Headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
	} {
		if got, err := p.Value(in); err != nil || got != "tr_7UhSN1zuXS &" {
			t.Errorf("%v, %v", got, err)
		}
	}
	for _, in := range []*expression.Input{{Body: []byte(body)}, {Body: []byte("a=%zz"), ContentType: "application/x-www-form-urlencoded"}} {
		if got, err := p.Value(in); !errors.Is(err, expression.ErrMissing) {
			t.Errorf("%v, %v", got, err)
		}
	}
}
