package jsonspan_test

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

func TestDecimal(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		"100": "100", "100.00": "100", "1e2": "100", "1E+02": "100", "1000e-1": "100", "0.1e3": "100",
		"-0": "0", "0.000": "0", "-0e99": "0", "0e999999999": "0", "-1.50": "-1.5", "12.0340": "12.034",
		"0.5": "0.5", "5e-1": "0.5", "1e-7": "0.0000001", "1e-8": "1e-8", "12e-9": "1.2e-8",
		"1e20": "100000000000000000000", "1e21": "1e21", "123e30": "1.23e32",
		"9007199254740993": "9007199254740993", "9007199254740993.0": "9007199254740993",
		"1e400000":   "1e400000",
		"10e399999":  "1e400000",
		"1e99999999": "1e99999999", "1E99999999999999999999": "1E99999999999999999999",
	} {
		if got := string(jsonspan.Decimal([]byte(number))); got != want {
			t.Errorf("%s is %s, want %s", number, got, want)
		}
	}
}

// Two numbers have the same spelling if, and only if, they are the same rational number.
func TestDecimalIsTheValue(t *testing.T) {
	t.Parallel()
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, y := string(jsonspan.Decimal([]byte(a))), string(jsonspan.Decimal([]byte(b)))
		if rational(t, x).Cmp(rational(t, a)) != 0 {
			t.Fatalf("%s became %s", a, x)
		}
		if same := rational(t, a).Cmp(rational(t, b)) == 0; same != (x == y) {
			t.Fatalf("%s is %s, %s is %s; the same value: %v", a, x, b, y, same)
		}
		if again := string(jsonspan.Decimal([]byte(x))); again != x {
			t.Fatalf("%s is %s, and that is %s", a, x, again)
		}
	})
}

func rational(t *rapid.T, number string) *big.Rat {
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		t.Fatalf("%s is no number", number)
	}
	return r
}

func TestMeaning(t *testing.T) {
	t.Parallel()
	volatile := [][]string{{"note"}, {"items", "*", "at"}}
	form := func(doc string) string {
		tree, ok := jsonspan.ParseMeaning([]byte(doc), volatile)
		if !ok {
			t.Fatalf("%s is not read", doc)
		}
		return string(tree.Append(nil))
	}
	const want = `{"amount":100,"items":[{"n":1}],"to":"a b"}`
	for _, doc := range []string{
		`{"amount":100,"items":[{"n":1}],"to":"a b"}`,
		`{"to": " a b\t", "amount": 100.00, "items": [ {"n": 1e0, "at": "noon"} ], "note": "x"}`,
		`{"items":[{"at":{},"n":10e-1}],"note":[1,2],"to":"a b\u00a0","amount":1e2}`,
	} {
		if got := form(doc); got != want {
			t.Errorf("%s means %s, want %s", doc, got, want)
		}
	}
	for _, doc := range []string{
		`{"amount":"100","items":[{"n":1}],"to":"a b"}`, `{"amount":100,"items":[{"n":1}],"to":"a  b"}`, `{"amount":100.01,"items":[{"n":1}],"to":"a b"}`,
		`{"amount":100,"items":[{"n":1}]," to":"a b"}`, `{"amount":100,"items":[{"n":1},{"n":1}],"to":"a b"}`,
	} {
		if form(doc) == want {
			t.Errorf("%s means the same as another document", doc)
		}
	}
	deep := strings.Repeat("[", jsonspan.MaxDepth+1)
	for _, doc := range []string{`{"a":1,"a":1}`, `{`, deep, "{\"\xff\":1}", ""} {
		if _, ok := jsonspan.ParseMeaning([]byte(doc), nil); ok {
			t.Errorf("%s is read", doc)
		}
	}
}
