package jsonspan_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/jsonspan"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// The canonical form that is written in one pass equals that of the tree, for documents in any
// order, with any white space and without volatile fields.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		`{"b":{"d":1,"c":[ {"z":1,"y":2} ,{}]},"a":"\u00e9\/"}`, `{"a":1,"a":2}`, `{"x":{"b":1,"a":{"d":1,"c":2}},"b":[],"a":null}`,
		`{"ab":1,"a":2,"a!":3,"a\u0022":4,"":5}`, `["\ud800",-0.5e+1,true,[[[{"b":1,"a":2}]]]]`, ` 12 `, `{"a":1}x`, "{\"\xff\":1}", `{"\ud800":1}`,
		`{"b":1,"c":` + strings.Repeat(`{"z":1,"y":`, 62) + "1" + strings.Repeat("}", 62) + `,"a":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, ok := jsonspan.Canonical(doc, nil)
		want, is := jsonspan.Mask(doc, func(string) bool { return false })
		if ok != is || ok && string(got) != string(want) {
			t.Fatalf("%s: %s (%v), the tree gives %s (%v)", doc, got, ok, want, is)
		}
	})
}

// The two forms are equal for every payload that GitHub publishes.
func TestCanonicalOctokit(t *testing.T) {
	t.Parallel()
	n := 0
	for example, err := range providertest.Octokit(testdata.Files) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		got, ok := jsonspan.Canonical(example.Body, nil)
		want, is := jsonspan.Mask(example.Body, func(string) bool { return false })
		if !ok || !is || string(got) != string(want) {
			t.Fatalf("%s: another canonical form than the tree's", example.Event)
		}
	}
	if n == 0 {
		t.Error("no payload")
	}
}
