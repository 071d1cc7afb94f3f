package app //nolint:testpackage // compares two ways in which labels are read, of which only one is visible

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/expression"
)

// labelBodies are bodies in which two readers could see two meanings.
var labelBodies = []string{
	`{"a":"x","b":{"c":"y"}}`, `{"a":1,"b":{"c":100}}`, `{"a":1.0,"b":{"c":1e2}}`, `{"a":-0,"b":{"c":-7}}`, `{"a":true,"b":{"c":false}}`,
	`{"a":null,"b":{"c":null}}`, `{"a":null,"b":null}`, `{"a":"","b":{}}`, `{}`, `null`, `[]`, `[1]`, `"text"`, ``, `{`, `{"a":1}x`, `{"a":"x"} `,
	`{"a":{},"b":"x"}`, `{"a":[],"b":[]}`, `{"a":[{"c":1}],"b":[{"c":1}]}`, `{"b":1}`, `{"b":true}`, `{"b":{"c":{"d":1}}}`,
	`{"a":1,"a":2}`, `{"a":1,"A":2,"b":{"c":1},"b":{"c":2}}`, `{"b":{"c":1},"b":null}`, `{"a":"\u0041","\u0062":{"c":"\ud800"}}`,
	"{\"a\":\"\xff\",\"b\":{\"c\":\"\ufffd\"}}", "{\"a\":\"\u00e4\",\"b\":{\"c\":\"\\n\"},\"d\":\"\xff\"}",
	`{"a":999999999999999999,"b":{"c":9999999999999999999}}`, `{"a":9223372036854775807,"b":{"c":9223372036854775808}}`, `{"a":1e400,"b":{"c":007}}`,
	`{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `,"b":{"c":1}}`, ` { "a" : "x" , "b" : { "c" : 12 } } `,
}

func compareLabels(t *testing.T, body []byte) {
	t.Helper()
	programs := map[string]*expression.Program{}
	names := []string{"a", "c", "other"}
	for i, source := range []string{"body.a", "body.b.c", "body.a + ''"} {
		program, err := expression.Compile(source, expression.Value)
		if err != nil {
			t.Fatal(err)
		}
		programs[names[i]] = program
	}
	spans := newLabelPaths(names, programs).read(body)
	for i, name := range names {
		value, err, known := spans.text(i)
		if !known {
			continue
		}
		want, wantErr := programs[name].Text(&expression.Input{Body: body})
		if !errors.Is(err, wantErr) && !(absent(err) && absent(wantErr)) || err == nil && value != want {
			t.Errorf("%s of %q is %q, %v, want %q, %v", name, body, value, err, want, wantErr)
		}
	}
}

// absent reports whether an event has no label because of the error.
func absent(err error) bool {
	return errors.Is(err, expression.ErrMissing) || errors.Is(err, expression.ErrNull)
}

// A label that is read from the bytes of a body is the one that its expression gives.
func TestLabelsOfPathsAreThoseOfExpressions(t *testing.T) {
	t.Parallel()
	for _, body := range labelBodies {
		compareLabels(t, []byte(body))
	}
	// And the bytes are what is read, of bodies as they usually are.
	program, err := expression.Compile("body.b.c", expression.Value)
	if err != nil {
		t.Fatal(err)
	}
	spans := newLabelPaths([]string{"c"}, map[string]*expression.Program{"c": program}).read([]byte(labelBodies[0]))
	if value, err, known := spans.text(0); value != "y" || err != nil || !known {
		t.Errorf("the label is %q, %v, %t", value, err, known)
	}
	for source, want := range map[string]bool{
		"body.a": true, "body.a.b": true, "body": false, "event.type": false, "has(body.a)": false, "body.a.b + 'x'": false, "body.a[0].b": false, "headers.a": false,
	} {
		program, err := expression.Compile(source, expression.Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := program.Path(); ok != want {
			t.Errorf("%s is a path: %t", source, ok)
		}
	}
}

func FuzzLabelsOfPaths(f *testing.F) {
	for _, body := range labelBodies {
		f.Add([]byte(body))
	}
	f.Fuzz(compareLabels)
}
