package jsonspan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// The walk finds the same value at a path as encoding/json, in any spelling of any document. Only
// the walk rejects a repeated key.
func FuzzWalk(f *testing.F) {
	for _, document := range documents(f) {
		f.Add(bytes.Replace(document, []byte(`"id":"evt_1"`), []byte(`"data":{"object":{"id":"evt_1"}}`), 1))
	}
	for _, seed := range []string{
		`{"data":{"object":{"id":"a","id":"b"}}}`, `{"data":1,"data":{"object":{"id":"a"}}}`, `{"d\u0061ta":{"obj\u0065ct":{"id":"\ud83d\ude00"}}}`,
		`{"data":{"object":{"id":"\ud800"}}}`, "{\"data\":{\"object\":{\"\xff\":1,\"id\":\"\xff\"}}}", `{"data":{"object":{"x":[{},[],"]}"],"id":-12345678901234567890}}}`,
		`{"data":{"object":{"id":1e5}}}`, `{"data":{"object":{"id":01}}}`, "{\n  \"data\" : {\n\t\"object\": {\r\n          \"n\":1.5,\"t\":true, \"id\": \"#\x7f\" } } }",
		`{"data":{"object":{"long":"` + strings.Repeat("é#", 20) + `","n":12345678,"id":null}}}`,
	} {
		f.Add([]byte(seed))
	}
	paths := jsonspan.NewPathSet()
	slot := paths.Add("data.object.id")
	f.Fuzz(func(t *testing.T, body []byte) {
		spans, err := paths.Walk(body)
		if errors.Is(err, jsonspan.ErrTwice) || errors.Is(err, jsonspan.ErrTooDeep) {
			return
		}
		if (err == nil) != json.Valid(body) {
			t.Fatalf("%v, but encoding/json says valid=%v", err, json.Valid(body))
		}
		if err != nil || !utf8.Valid(body) {
			return // encoding/json replaces invalid text, in names too
		}
		got, found := "", spans[slot].Present()
		if raw := spans[slot].Of(body); found && raw[0] == '"' {
			if got, err = jsonspan.Unquote(raw); err != nil {
				return // a lone surrogate, which encoding/json replaces
			}
		} else if found {
			got = string(raw)
		}
		if want, is := valueOf(body); found != is || got != want {
			t.Fatalf("%q (%v), encoding/json says %q (%v)", got, found, want, is)
		}
	})
}

// valueOf returns data.object.id as encoding/json reads it: a string decoded, any other value in
// its original spelling.
func valueOf(body []byte) (value string, ok bool) {
	raw := json.RawMessage(body)
	for _, name := range []string{"data", "object", "id"} {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil || object[name] == nil {
			return "", false
		}
		raw = object[name]
	}
	var text string
	if raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	return string(raw), true
}
