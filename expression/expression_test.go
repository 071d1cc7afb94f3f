package expression_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/expression"
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
	in := input(`{"name": "canary-canary", "n": 1, "deep": {"a": 1}}`)
	for source, want := range map[string]error{
		`body.missing`:       expression.ErrMissing,
		`body[body.name]`:    expression.ErrMissing,
		`int(body.name) + 1`: expression.ErrFailed,
		`body.name + 1`:      expression.ErrType,
		`body.n / 0`:         expression.ErrFailed,
		`[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, [1,2,3,4,5,6,7,8,9,10].map(c, [1,2,3,4,5,6,7,8,9,10].map(d, [1,2,3,4,5,6,7,8,9,10].map(e, body.n)))))`: expression.ErrCost,
	} {
		_, err := compile(t, source, expression.Value).Value(in)
		if !errors.Is(err, want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %v", source, err, want)
		}
	}
	if _, err := compile(t, `body.name`, expression.Condition).Bool(in); !errors.Is(err, expression.ErrType) {
		t.Errorf("a text as a condition: %v", err)
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]expression.Want{
		``: expression.Value, `body.`: expression.Value, `bdy.x`: expression.Value, `event.tpye`: expression.Value,
		`event.type`: expression.Condition, `1 + "a"`: expression.Value, `event`: expression.Value, `true`: expression.Texts,
		strings.Repeat("1+", 5000) + "1": expression.Value,
	} {
		_, err := expression.Compile(source, want)
		if err == nil {
			t.Errorf("%.40q is taken", source)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: the error is not one line: %v", source, err)
		}
	}
}

// A body that is not JSON is null, never an error of its own.
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
		`{"n":123456789012345678901}`: `{"n":123456789012345678902}`,
	} {
		if same(a, b) {
			t.Errorf("%s and %s have one key", a, b)
		}
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
