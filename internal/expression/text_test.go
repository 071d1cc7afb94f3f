package expression_test

import (
	"errors"
	"testing"

	"github.com/oncegate/oncegate/internal/expression"
)

// A text that names something is one text for each thing, however JSON writes it.
func TestTextsThatNameSomething(t *testing.T) {
	t.Parallel()
	program := compile(t, "body.v", expression.Value)
	for written, want := range map[string]string{
		`"a/b ä"`: "a/b ä", `42`: "42", `-1`: "-1", `100`: "100", `100.00`: "100", `1e2`: "100", `12.50`: "12.5", `0.0000001`: "0.0000001", `-0.0`: "0",
		`true`: "true", `false`: "false", `9223372036854775807`: "9223372036854775807",
		`99999999999999999999999999999999999999`: "99999999999999999999999999999999999999",
	} {
		if got, err := program.Text(input(`{"v": ` + written + `}`)); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", written, got, err, want)
		}
	}
	for written, want := range map[string]error{
		`null`: expression.ErrNull, `""`: expression.ErrNull, `[]`: expression.ErrType, `["a"]`: expression.ErrType, `{}`: expression.ErrType,
		`1e300`: expression.ErrType, `9007199254740993.0`: expression.ErrType, `"\ud800"`: expression.ErrType,
	} {
		if got, err := program.Text(input(`{"v": ` + written + `}`)); !errors.Is(err, want) || got != "" {
			t.Errorf("%s: %q, %v, want %v", written, got, err, want)
		}
	}
	if _, err := program.Text(input(`{}`)); !errors.Is(err, expression.ErrMissing) {
		t.Errorf("nothing there: %v", err)
	}
}

// A request's expressions see the key; a condition and a recipe do not, since the key is
// made after them.
func TestOnlyRequestsSeeTheKey(t *testing.T) {
	t.Parallel()
	in := input(`{}`)
	in.Key = "stripe/evt_1/billing"
	for source, want := range map[string]string{
		"key":               "stripe/evt_1/billing",
		"key_uuid":          "8b909e4b-205f-88ea-97d1-f0bdc0ee5729", // by Python's hashlib and uuid, after RFC 9562, B.2
		`"oncegate-" + key`: "oncegate-stripe/evt_1/billing",
	} {
		program, err := expression.CompileWithKey(source, expression.Value)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := program.Value(in); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %s", source, got, err, want)
		}
		if _, err := expression.Compile(source, expression.Value); err == nil {
			t.Errorf("%s was compiled for what does not make a request", source)
		}
	}
	own, err := expression.CompileWithKey(`body.items.map(key, key + 1)`, expression.Value)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := own.Value(input(`{"items": [1]}`)); err != nil || len(got.([]any)) != 1 || got.([]any)[0] != int64(2) {
		t.Errorf("a variable of a user's own: %v, %v", got, err)
	}
}
