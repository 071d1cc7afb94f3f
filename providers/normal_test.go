package providers_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// The canonical form that is written in one pass is the one that the tree gives,
// for documents in any order, with any white space and nothing volatile in them.
func FuzzNormal(f *testing.F) {
	for _, seed := range []string{
		`{"b":{"d":1,"c":[ {"z":1,"y":2} ,{}]},"a":"\u00e9\/"}`, `{"a":1,"a":2}`, `{"x":{"b":1,"a":{"d":1,"c":2}},"b":[],"a":null}`,
		`{"ab":1,"a":2,"a!":3,"a\u0022":4,"":5}`, `["\ud800",-0.5e+1,true,[[[{"b":1,"a":2}]]]]`, ` 12 `, `{"a":1}x`, "{\"\xff\":1}", `{"\ud800":1}`,
		`{"b":1,"c":` + strings.Repeat(`{"z":1,"y":`, 62) + "1" + strings.Repeat("}", 62) + `,"a":1}`,
	} {
		f.Add([]byte(seed))
	}
	p := custom(f, "extends: hmac\n")
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, ok := p.Canonical(doc)
		want, is := providers.Mask(doc, func(string) bool { return false })
		if ok != is || ok && string(got) != string(want) {
			t.Fatalf("%s: %s (%v), the tree gives %s (%v)", doc, got, ok, want, is)
		}
	})
}

// It is the same for every payload that GitHub publishes.
func TestNormalOctokit(t *testing.T) {
	t.Parallel()
	p := custom(t, "extends: hmac\n")
	n := 0
	for example, err := range providertest.Octokit(testdata.Files) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		got, ok := p.Canonical(example.Body)
		want, is := providers.Mask(example.Body, func(string) bool { return false })
		if !ok || !is || string(got) != string(want) {
			t.Fatalf("%s: another canonical form than the tree's", example.Event)
		}
	}
	if n == 0 {
		t.Error("no payload")
	}
}

// A document that is read for its fields and its digest in one pass gives the same
// event as one that is passed over twice, as it is where an id is looked for first.
func FuzzDigestPass(f *testing.F) {
	for _, document := range documents(f) {
		f.Add(document)
	}
	for _, seed := range []string{
		`{"type":"a","type":"b"}`, `{"x":1,"x":2,"type":"t"}`, `{"t\u0079pe":"t","data":{"b":1,"a":[{"k":"v"}]}}`, `{"data":{"a":[1,{"k":"z"}],"a":2},"type":"t"}`,
		`{"\ud800":1,"type":"t"}`, "{\"\xff\":1,\"type\":\"t\"}", ` { "type" : "t" , "data" : { "a" : [ { "k" : 1 } ] , "v" : 2 } } `, `{"type":"t","v":1,"data":{"v":2}}`, `{"type":"t"`, `[{"type":"t"}]`,
		`{"type":"t","data":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, `{"type":"t","data":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, `12`, ``,
	} {
		f.Add([]byte(seed))
	}
	const rest = "\ntype: [{ json: type }, { json: data.a.0.k }]\nvolatile: [v, data.v, data.a.1]\n"
	once := custom(f, "extends: hmac\nidentity: { mode: digest }"+rest)
	twice := custom(f, "extends: hmac\nidentity: { candidates: [{ json: not.there.at-all }] }"+rest)
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.Contains(body, []byte("not")) || bytes.Contains(body, []byte(`\u`)) && bytes.Contains(body, []byte("there")) {
			return // it may hold what the second one looks for
		}
		req := &providers.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ReceivedAt: noon}
		one, two := once.Inspect(req).Items, twice.Inspect(req).Items
		if len(one) != 1 || len(two) != 1 || one[0] != two[0] {
			t.Fatalf("%q: %+v in one pass, %+v in two", body, one, two)
		}
	})
}
