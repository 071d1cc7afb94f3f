package providers_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

// FuzzDigestPass checks that reading a document for its fields and its digest in one pass results
// in the same event as two passes, which happen if an id is looked for first.
func FuzzDigestPass(f *testing.F) {
	f.Add([]byte(twoKilobytes()))
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
