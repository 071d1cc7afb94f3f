package pretty_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/pretty"
)

func TestNumbersStayAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	got, ok := pretty.JSON([]byte(` {"id":9007199254740993,"amount":1.10,"e":1E400,"list":[1,{"a":[]},{}],"text":"a\"b\\"} `), pretty.Options{})
	want := `{
  "id": 9007199254740993,
  "amount": 1.10,
  "e": 1E400,
  "list": [
    1,
    {
      "a": []
    },
    {}
  ],
  "text": "a\"b\\"
}`
	if !ok || got.Text != want || got.Cut || got.Masked != 0 {
		t.Errorf("got %v %+v, want %s", ok, got, want)
	}
}

// Escapes that only hide what a text says are decoded. The document stays JSON with the same value, and what a terminal or a
// browser would obey stays an escape.
func TestEscapesAreDecoded(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`"caf\u00e9 https:\/\/x.example\/a"`:    `"café https://x.example/a"`,
		`"\ud83d\ude00 \u20AC\u00A0"`:           `"😀 €` + "\u00a0" + `"`,
		`"\ud83d \ude00 \ud83d\u0041"`:          `"\ud83d \ude00 \ud83dA"`,
		`"\u0022\u005c\u0000\u001b\n\t\\u00e9"`: `"\u0022\u005c\u0000\u001b\n\t\\u00e9"`,
		`"\u202egnp.exe\u2066"`:                 `"\u202egnp.exe\u2066"`,
		`{"\u00fc":1}`:                          "{\n  \"ü\": 1\n}",
	} {
		got, ok := pretty.JSON([]byte(doc), pretty.Options{})
		if !ok || got.Text != want {
			t.Errorf("%s is shown as %s, want %s", doc, got.Text, want)
		}
		var before, after any
		if json.Unmarshal([]byte(doc), &before) != nil || json.Unmarshal([]byte(got.Text), &after) != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%s is shown as %s, which is another value", doc, got.Text)
		}
	}
}

func TestMaskedValuesAreNotShown(t *testing.T) {
	t.Parallel()
	doc := `{"card":{"number":"4242","cvc":123},"items":[{"email":"a@b.c"},{"email":["x"]}],"email":null,"n":5}`
	got, ok := pretty.JSON([]byte(doc), pretty.Options{Hide: func(path string) bool {
		return path == "card" || strings.HasSuffix(path, "email")
	}})
	if !ok || got.Masked != 4 || strings.Contains(got.Text, "4242") || strings.Contains(got.Text, "@") || strings.Contains(got.Text, `"x"`) || !strings.Contains(got.Text, `"n": 5`) {
		t.Errorf("got %+v", got)
	}
}

func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	wide := "[" + strings.Repeat("1,", 400_000) + "1]"
	for name, doc := range map[string]string{"deep": deep, "wide": wide, "long": `"` + strings.Repeat("x", 1<<20) + `"`} {
		got, ok := pretty.JSON([]byte(doc), pretty.Options{})
		if !ok || !got.Cut || len(got.Text) > pretty.DefaultLimit {
			t.Errorf("%s: ok %v, cut %v, %d bytes", name, ok, got.Cut, len(got.Text))
		}
	}
	got, ok := pretty.JSON([]byte("{\"a\u202eb\":\"\u009b2J\u2066\"}"), pretty.Options{})
	if !ok || !strings.Contains(got.Text, `a\u202eb`) || !strings.Contains(got.Text, `\u009b2J\u2066`) {
		t.Errorf("got %q", got.Text)
	}
	for _, doc := range []string{"", "{", "x", "{}{}", "\x00"} {
		if _, ok := pretty.JSON([]byte(doc), pretty.Options{}); ok {
			t.Errorf("%q is taken for JSON", doc)
		}
	}
}

// The formatted text is the same document.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2,{"b":null}],"c":"\u0041"}`, `[]`, `1e5`, `" "`, `[true,false,[[]]]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, ok := pretty.JSON(doc, pretty.Options{Limit: 1 << 30})
		if ok != json.Valid(doc) {
			t.Fatalf("ok is %v", ok)
		}
		if !ok {
			return
		}
		var before, after bytes.Buffer
		if err := json.Compact(&before, doc); err != nil {
			t.Fatal(err)
		}
		if err := json.Compact(&after, []byte(got.Text)); err != nil {
			t.Fatalf("%v: %s", err, got.Text)
		}
		var x, y any
		if json.Unmarshal(before.Bytes(), &x) == nil {
			if err := json.Unmarshal(after.Bytes(), &y); err != nil {
				t.Fatal(err)
			}
			a, _ := json.Marshal(x)
			b, _ := json.Marshal(y)
			if !bytes.Equal(a, b) {
				t.Fatalf("%s is not %s", b, a)
			}
		}
		_, _ = pretty.JSON(doc, pretty.Options{Hide: func(path string) bool { return len(path)%2 == 0 }})
	})
}
