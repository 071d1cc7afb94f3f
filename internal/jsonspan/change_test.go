package jsonspan_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	secret := func(path string) bool { return strings.HasSuffix(path, "token") }
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"order and white space":   {`{"a":1,"b":2}`, `{ "b" : 2, "a" : 1 }`, nil},
		"a value":                 {`{"a":{"b":1}}`, `{"a":{"b":2}}`, []string{`a.b 1 2`}},
		"digits beyond 2^53":      {`{"a":9007199254740993}`, `{"a":9007199254740992}`, []string{`a 9007199254740993 9007199254740992`}},
		"added and removed":       {`{"a":1}`, `{"b":[1,{"c":null}]}`, []string{`a 1 `, `b  [1,{"c":null}]`}},
		"an element":              {`[1,2]`, `[1,3,4]`, []string{`1 2 3`, `2  4`}},
		"the whole":               {`1`, `{"a":1}`, []string{`$ 1 {"a":1}`}},
		"masked":                  {`{"token":"x"}`, `{"token":"y"}`, []string{`token "<redacted>" "<redacted>"`}},
		"masked inside what came": {`{}`, `{"a":{"token":"y","n":1}}`, []string{`a  {"n":1,"token":"<redacted>"}`}},
		"bounded":                 {`[]`, `[1,2,3,4,5]`, []string{`0  1`, `1  2`, `2  3`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes, ok := jsonspan.Changes([]byte(c.before), []byte(c.after), 3, secret)
			var got []string
			for _, change := range changes {
				got = append(got, change.Path+" "+string(change.Before)+" "+string(change.After))
			}
			if !ok || strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%v %q, want %q", ok, got, c.want)
			}
		})
	}
	if _, ok := jsonspan.Changes([]byte(`{}`), []byte(`<a/>`), 3, secret); ok {
		t.Error("what is not JSON was compared")
	}
	if shown, ok := jsonspan.Mask([]byte(`{"z":1,"a":{"token":{"x":"s3cret"}}}`), secret); !ok || string(shown) != `{"a":{"token":"<redacted>"},"z":1}` {
		t.Errorf("%v %s", ok, shown)
	}
}
