package providers_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// The ids of events without one are stored for as long as their keys live: what a
// payload's digest is may never change, or a retry after an upgrade would be new.
func TestDigestsStay(t *testing.T) {
	t.Parallel()
	p := custom(t, `
extends: hmac
identity: { mode: digest, with: [{ header: X-Shop }] }
type: [{ header: X-Topic }]
volatile: [attempt, items.*.at, deep.0.x]
`)
	id := func(contentType, body string) string {
		req := &providers.Request{Method: http.MethodPost, Header: http.Header{"X-Topic": {"t"}, "X-Shop": {"s"}, "Content-Type": {contentType}}, Body: []byte(body), ReceivedAt: noon}
		items := p.Inspect(req).Items
		if len(items) != 1 {
			t.Fatalf("%+v", items)
		}
		return items[0].EventID
	}
	for body, want := range map[string]string{
		`{}`:                           "sha256:ecb5a88a34ba2c9b52fb3448e54da28da0e0d035d8ab85c777ed3320be6ec37a",
		`{"a":1,"b":[1,2,{"c":null}]}`: "sha256:fdcf97ffaa9831e31f616351bef706020837787b512dc7363ce666845225aa92",
		` { "b" : [ 1 , 2.50, {"d":{ },"c":"\u00e9\/\u001f\ud83d\ude00"} ] , "a" : "x" , "attempt":3, "items":[{"at":1,"b":2,"a":3}]} `: "sha256:5df0f0d2baa6c7927b7e5be2477c9d4cc400be1500f06d8580aa0ddb9b72ca47",
		`{"deep":[{"x":1,"y":{"b":1,"a":2}},{"x":1}],"z":"","ab":1,"a":2,"a!":3,"a\u0022":4,"":5}`:                                      "sha256:404b0140b93947d028d42ffeed5ce80edc0f474a2e17b65e47f65beaec9bc5c3",
		`{"a":1,"a":2}`: "sha256:b3a953f259e51c391dd0781392be752aa86ca309413d3f3327dcc67510afdf1e", `["\ud800",-0.5e+1,true,[[[{"b":1,"a":2}]]]]`: "sha256:c9a239a877931caa403ca830c12c1fbc3a909951e18dd8c48992b0429ff52757", "\"\u2028\xc3\xa9\"": "sha256:ddad8ef808ea79e1805aece3e1a1b5ed7f71fbe2b3d4c149c2928be77885dcfd", `12345678901234567890`: "sha256:0c90de11f9d89b5f246c09ebba118b5870c0249de0c73848cff06a348c870544",
	} {
		if got := id("application/json", body); got != want {
			t.Errorf("%q: %q,", body, got)
		}
	}
	if got := id("application/x-www-form-urlencoded", "b=2&a=1&a=0&payload=%7B%22y%22%3A1%2C%22x%22%3A2%7D"); got != "sha256:f50d2806c79a72eab5e277c7645c38e42eb09a024293b26c60dcd04062a2e6b3" {
		t.Errorf("a form: %s", got)
	}
	// Every payload that GitHub publishes, as one.
	whole := sha256.New()
	for example, err := range providertest.Octokit(testdata.Files) {
		if err != nil {
			t.Fatal(err)
		}
		whole.Write([]byte(id("application/json", string(example.Body))))
	}
	if got := hex.EncodeToString(whole.Sum(nil)); got != "ce8f578d9bf74d04d65532c7e5ff795f6ff7123a323c8966833cf2a0e2e0c449" {
		t.Errorf("GitHub's payloads: %s", got)
	}
}
