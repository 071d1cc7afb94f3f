package control

import (
	"encoding/json"
	"testing"
)

// The vectors are those of RFC 7396, appendix A.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		got, err := mergePatch([]byte(c[0]), []byte(c[1]))
		if err != nil || string(got) != c[2] {
			t.Errorf("%s with %s: got %s, %v, want %s", c[0], c[1], got, err, c[2])
		}
	}
}

// A definition is stored in one form, and a refusal does not show it.
func TestObject(t *testing.T) {
	t.Parallel()
	got, err := object("definition", json.RawMessage(`{"b": 1.50, "a": {"d": 1, "c": 2}}`))
	if err != nil || string(got) != `{"a":{"c":2,"d":1},"b":1.50}` {
		t.Errorf("got %s, %v", got, err)
	}
	for _, text := range []string{`["whsec"]`, `{"a":"whsec"`, `"whsec"`, `{} {}`, ``, `null`} {
		if _, err := object("definition", json.RawMessage(text)); err == nil || err.Error() != invalid("definition: must be one JSON object").Error() {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
