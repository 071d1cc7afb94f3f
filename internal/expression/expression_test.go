package expression_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/expression"
)

func input(body string) *expression.Input {
	return &expression.Input{
		Event: expression.Event{ID: "evt_1", Type: "order.paid", Source: "shop", Provider: "test", ReceivedAt: time.Unix(1_700_000_000, 0)},
		Body:  []byte(body), Headers: map[string]string{"X-Topic": "orders"},
	}
}

func compile(t *testing.T, source string, want expression.Want) *expression.Program {
	t.Helper()
	p, err := expression.Compile(source, want)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return p
}

func TestConditions(t *testing.T) {
	t.Parallel()
	in := input(`{"total": 12.5, "n": 3, "items": [{"sku": "a"}, {"sku": "b"}], "email": "a@b.example", "none": null}`)
	for source, want := range map[string]bool{
		`body.total > 0`:                                        true,
		`body.total > 12`:                                       true,
		`body.n == 3.0`:                                         true,
		`body.n > 2.5`:                                          true,
		`event.type == "order.paid"`:                            true,
		`event.type.startsWith("invoice.")`:                     false,
		`headers["x-topic"] == "orders"`:                        true,
		`"x-other" in headers`:                                  false,
		`has(body.missing)`:                                     false,
		`has(body.missing) && body.missing == 1`:                false,
		`body.none == null`:                                     true,
		`body.items.exists(i, i.sku == "b")`:                    true,
		`size(body.items) == 2`:                                 true,
		`event.received_at > timestamp("2020-01-01T00:00:00Z")`: true,
	} {
		got, err := compile(t, source, expression.Condition).Bool(in)
		if err != nil || got != want {
			t.Errorf("%s: %t, %v, want %t", source, got, err, want)
		}
	}
}

// The race detector has to see nothing where one expression is refused while
// others are checked: what CEL finds out on the first refusal it keeps.
func TestExpressionsAreCompiledConcurrently(t *testing.T) {
	t.Parallel()
	sources := map[string]bool{
		`body.items.exists(i, i.n > 0)`: true, `nobody`: false, `body.items.all(i, has(i.n))`: true, `event.typ == "a"`: false,
	}
	for range 20 {
		compile, err := expression.NewCompile()
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for source, good := range sources {
			group.Go(func() {
				if _, err := compile(source, expression.Condition); (err == nil) != good {
					t.Errorf("%s: %v", source, err)
				}
			})
		}
		group.Wait()
	}
}

func TestErrorsAreOfAClosedSetAndQuoteNothing(t *testing.T) {
	t.Parallel()
	in := input(`{"name": "canary-canary", "n": 1, "list": [1], "deep": {"a": 1}}`)
	for source, want := range map[string]error{
		`body.missing`:                 expression.ErrMissing,
		`body.deep.b.c`:                expression.ErrMissing,
		`body.name.first`:              expression.ErrMissing,
		`body[body.name]`:              expression.ErrMissing,
		`body.list[5]`:                 expression.ErrMissing,
		`body.list[-1]`:                expression.ErrMissing,
		`headers["x-other"]`:           expression.ErrMissing,
		`body.list.map(x, x.y)`:        expression.ErrMissing,
		`body.name + 1`:                expression.ErrType,
		`-body.name`:                   expression.ErrType,
		`!body.n`:                      expression.ErrType,
		`body.list["a"]`:               expression.ErrType,
		`dyn(1) < dyn("a")`:            expression.ErrType,
		`double("NaN")`:                expression.ErrType,
		`[1.0 / 0.0]`:                  expression.ErrType,
		`{1: 2}`:                       expression.ErrType,
		`{"a": 1.0 / 0.0}`:             expression.ErrType,
		`int(body.name) + 1`:           expression.ErrFailed,
		`timestamp(body.name)`:         expression.ErrFailed,
		`duration(body.name)`:          expression.ErrFailed,
		`body.n / 0`:                   expression.ErrFailed,
		`9223372036854775807 + body.n`: expression.ErrFailed,
		strings.Repeat(`[1,2,3,4,5,6,7,8,9,10].map(a, `, 5) + `body.n` + strings.Repeat(`)`, 5): expression.ErrCost,
	} {
		value, err := compile(t, source, expression.Value).Value(in)
		// The error itself: what it wraps could quote the event.
		if err != want || value != nil { //nolint:errorlint // see above
			t.Errorf("%s: %v, %v, want %v itself", source, value, err, want)
		}
		if want == expression.ErrType { //nolint:errorlint // see above
			continue // some have no type that a comparison would take
		}
		if _, err := compile(t, "body.n == 1 && "+source+" == dyn(1)", expression.Condition).Bool(in); err != want { //nolint:errorlint // see above
			t.Errorf("%s as a condition: %v, want %v itself", source, err, want)
		}
	}
	for source, want := range map[string]error{`body.name`: expression.ErrType, `body.n`: expression.ErrType, `body.missing`: expression.ErrMissing} {
		if _, err := compile(t, source, expression.Condition).Bool(in); err != want { //nolint:errorlint // see above
			t.Errorf("%s as a condition: %v, want %v", source, err, want)
		}
	}
	for source, want := range map[string]error{`body.n`: expression.ErrType, `body.list`: expression.ErrType, `[body.name, body.n]`: expression.ErrType, `body.deep`: expression.ErrType, `body.missing`: expression.ErrMissing} {
		if texts, err := compile(t, source, expression.Texts).Texts(in); err != want || texts != nil { //nolint:errorlint // see above
			t.Errorf("%s as texts: %q, %v, want %v", source, texts, err, want)
		}
	}
	for err, text := range map[error]string{
		expression.ErrMissing: "a field is missing", expression.ErrCost: "it costs too much", expression.ErrType: "a value has the wrong type",
		expression.ErrFailed: "it cannot be evaluated", expression.ErrNull: "a field is null",
	} {
		if err.Error() != text {
			t.Errorf("%q, want %q: it is stored as the reason of dead effects", err, text)
		}
	}
}

// A value that nests further than the bound is refused, one that reaches it is not.
func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	for depth, want := range map[int]error{64: nil, 65: expression.ErrType} {
		body := strings.Repeat("[", depth) + "1" + strings.Repeat("]", depth)
		if _, err := compile(t, `body`, expression.Value).Value(input(body)); err != want { //nolint:errorlint // the error itself
			t.Errorf("%d lists: %v, want %v", depth, err, want)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source string
		want   expression.Want
		err    string
	}{
		{``, expression.Value, "the expression is empty"},
		{" \t\n", expression.Value, "the expression is empty"},
		{strings.Repeat(" ", 8192) + "1", expression.Value, "the expression is longer than 8192 bytes"},
		{`body.`, expression.Value, "column 6: '.' is not expected here"},
		{`body.a == 1 +`, expression.Value, "column 14: the expression ends too early"},
		{`size(body`, expression.Value, "column 10: ')' is missing at the end"},
		{`body.a b`, expression.Value, "column 8: 'b' is not expected here"},
		{`body.a == #`, expression.Value, "column 11: '#' is not expected here"},
		{`-"a"`, expression.Value, "column 1: - is not defined for string"},
		{`1 in 2`, expression.Value, "column 3: in is not defined for int and int"},
		{`size(1)`, expression.Value, "column 5: there is no function size(int)"},
		{`"a".startsWith(1)`, expression.Value, "column 15: string has no function startsWith(int)"},
		{`bdy.x`, expression.Value, "column 1: undeclared reference to 'bdy'"},
		{"body.x == 1\n  && bdy.y", expression.Value, "line 2, column 6: undeclared reference to 'bdy'"},
		{`event.tpye`, expression.Value, "column 6: undefined field 'tpye'"},
		{`1 + "a"`, expression.Value, "column 3: + is not defined for int and string"},
		{`nosuch(1)`, expression.Value, "column 7: undeclared reference to 'nosuch'"},
		{`body.name.matches("(")`, expression.Value, "preparing the expression: error parsing regexp: missing closing ): `(`"},
		{`event`, expression.Value, "it returns expression.Event, which JSON does not have"},
		{`type(1)`, expression.Value, "it returns type(int), which JSON does not have"},
		{`event.type`, expression.Condition, "it returns string, want true or false"},
		{`1`, expression.Condition, "it returns int, want true or false"},
		{`true`, expression.Texts, "it returns bool, want a text or a list of texts"},
		{`{}`, expression.Texts, "it returns map(dyn, dyn), want a text or a list of texts"},
		{`1.5`, expression.Name, "it returns double, want a text or a whole number"},
		{`event.received_at`, expression.Name, "it returns google.protobuf.Timestamp, want a text or a whole number"},
		{`true`, expression.Number, "it returns bool, want a number, a decimal text or a time"},
		{`duration("1s")`, expression.Number, "it returns google.protobuf.Duration, want a number, a decimal text or a time"},
	} {
		p, err := expression.Compile(c.source, c.want)
		if err == nil || !strings.HasPrefix(err.Error(), c.err) || strings.Contains(err.Error(), "\n") || p != nil {
			t.Errorf("%.40q: %v, want %s", c.source, err, c.err)
		}
	}
	for source, want := range map[string]expression.Want{
		strings.Repeat(" ", 8191) + "1": expression.Value, `[event.type]`: expression.Texts, `body`: expression.Condition, `1u`: expression.Name, `1.5`: expression.Number,
	} {
		if _, err := expression.Compile(source, want); err != nil {
			t.Errorf("%.40q: %v", source, err)
		}
	}
}

// A body that is not JSON is null in an expression and causes no error.
func TestBodiesThatAreNotJSON(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "x", "{", "{} {}", "\x00"} {
		if got, err := compile(t, `body == null`, expression.Condition).Bool(input(body)); err != nil || !got {
			t.Errorf("%q: %t, %v", body, got, err)
		}
	}
	if got, err := compile(t, `body.n`, expression.Value).Value(input(`{"n":1e400000}`)); err != nil || got != "1e400000" {
		t.Errorf("%v, %v", got, err)
	}
}

func recipe(t *testing.T, version int, exclude []string, fields ...string) *expression.Recipe {
	t.Helper()
	r := &expression.Recipe{Version: version, Exclude: exclude}
	for _, f := range fields {
		r.Fields = append(r.Fields, compile(t, f, expression.Value))
	}
	return r
}

func hash(t *testing.T, r *expression.Recipe, body string) string {
	t.Helper()
	sum, err := r.Hash(input(body))
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	one := recipe(t, 1, nil, `event.type`, `body`)
	same := func(a, b string) bool { return hash(t, one, a) == hash(t, one, b) }
	if !same(`{"a":1,"b":{"c":2.0,"d":[1,2]}}`, "{ \"b\": {\"d\":[1,2], \"c\":2 }, \"a\":1e0}") {
		t.Error("spelling and order of members make another key")
	}
	for a, b := range map[string]string{
		`{"a":1}`: `{"a":"1"}`, `{"a":[1,2]}`: `{"a":[2,1]}`, `{"n":9007199254740993}`: `{"n":9007199254740992}`,
		`{"n":-9007199254740993}`:     `{"n":-9007199254740992}`,
		`{"n":123456789012345678901}`: `{"n":123456789012345678902}`,
	} {
		if same(a, b) {
			t.Errorf("%s and %s have one key", a, b)
		}
	}
	unsigned := recipe(t, 1, nil, `uint(body.n)`)
	if hash(t, unsigned, `{"n":9007199254740993}`) == hash(t, unsigned, `{"n":9007199254740992}`) || hash(t, unsigned, `{"n":7}`) != hash(t, recipe(t, 1, nil, `body.n`), `{"n":7}`) {
		t.Error("whole numbers without a sign are rounded, or differ from the others")
	}
	if hash(t, recipe(t, 1, nil, `event.type`, `body`), `{}`) == hash(t, recipe(t, 2, nil, `event.type`, `body`), `{}`) {
		t.Error("another version has the same key")
	}
	without := recipe(t, 1, []string{"at"}, `body`)
	if hash(t, without, `{"a":1,"at":1,"in":[{"at":2,"x":1}]}`) != hash(t, without, `{"a":1,"in":[{"x":1}]}`) {
		t.Error("what is excluded is in the key")
	}
	const goldenKey = "55a3ccdb72456ff728219dad94ec78055d21030d06a655905b390dcbc184716f"
	// SHA-256 of [1,"order.paid","é€"]: printf '[1,"order.paid","é€"]' | sha256sum
	if got := hash(t, recipe(t, 1, nil, `event.type`, `body.x`), `{"x":"\u00e9\u20ac"}`); got != goldenKey {
		t.Errorf("key %s, want %s: keys that are stored must never change", got, goldenKey)
	}
	for _, body := range []string{`{"x":null}`, `{}`, ``} {
		if _, err := recipe(t, 1, nil, `body.x`).Hash(input(body)); err == nil || !strings.Contains(err.Error(), "field 1 of the key, body.x") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestMappings(t *testing.T) {
	t.Parallel()
	m := expression.NewObject(map[string]*expression.Mapping{
		"id":    expression.NewMapping(compile(t, `event.id`, expression.Value)),
		"order": expression.NewObject(map[string]*expression.Mapping{"skus": expression.NewMapping(compile(t, `body.items.map(i, i.sku)`, expression.Value))}),
	})
	got, err := m.JSON(input(`{"items":[{"sku":"a"},{"sku":"b"}]}`))
	if err != nil || string(got) != `{"id":"evt_1","order":{"skus":["a","b"]}}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := m.JSON(input(`{}`)); !errors.Is(err, expression.ErrMissing) || !strings.Contains(err.Error(), "order: skus: body.items.map") {
		t.Errorf("%v does not say which expression", err)
	}
	source, err := json.Marshal(m.Source())
	if err != nil || !strings.Contains(string(source), "event.id") {
		t.Errorf("%s, %v", source, err)
	}
}

// A field with a default counts as that where it is missing or null, and only there.
func TestKeysWithDefaults(t *testing.T) {
	t.Parallel()
	r := recipe(t, 1, nil, `body.currency`, `body.version`)
	r.Default(0, "EUR")
	r.Default(1, "1")
	want := hash(t, recipe(t, 1, nil, `body.currency`, `body.version`), `{"currency":"EUR","version":1}`)
	for _, same := range []string{`{}`, `{"currency":null,"version":1.0}`, `{"currency":"EUR"}`} {
		if hash(t, r, same) != want {
			t.Errorf("%s has another key than EUR and 1", same)
		}
	}
	for _, other := range []string{`{"currency":"USD"}`, `{"version":2}`, `{"version":"1"}`, `{"currency":""}`} {
		if hash(t, r, other) == want {
			t.Errorf("%s has the key of EUR and 1", other)
		}
	}
	if _, err := recipe(t, 1, nil, `body.currency`).Hash(input(`{}`)); err == nil {
		t.Error("a field without a default may be missing")
	}
	if got := strings.Join(r.Texts(), ", "); got != "body.currency or EUR, body.version" {
		t.Errorf("shown is %s", got)
	}
}
