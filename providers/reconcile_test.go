package providers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
)

const listed = good + `
reconcile:
  docs: https://example.com/list
  base: https://api.example.com
  auth: { kind: bearer, about: a key }
  path: /events
  query: { after: "{{since}}", account: "{{account}}" }
  params: [{ name: account, about: the account }]
  time: s
  events: data
  id: id
  created: { json: created, unit: s }
  order: newest
  page: { kind: token, param: page, next: next }
`

// Each mistake in a section is refused with what is wrong.
func TestReconcileSection(t *testing.T) {
	t.Parallel()
	if _, err := providers.Parse("listed", []byte(listed)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, new, want string }{
		"an id in a header":       {"candidates: [{ json: id }]", "candidates: [{ header: X-Id }]", "the event id is not in the event itself"},
		"an unknown placeholder":  {"{{account}}", "{{tenant}}", "{{tenant}} is not known; known are since, until, account"},
		"plain http":              {"base: https:", "base: http:", "is not an https address without a path"},
		"another path":            {"api.example.com", "api.example.com/v2", "is not an https address without a path"},
		"no such authentication":  {"kind: bearer", "kind: digest", "unknown; known are bearer, basic, oauth, jwt"},
		"nobody issues a token":   {"kind: bearer", "kind: oauth", "goes with kind oauth, which needs it"},
		"a token from elsewhere":  {"kind: bearer", `kind: oauth, token: "https://b.example/"`, "the path of the address that issues tokens"},
		"a token without a key":   {"kind: bearer", "kind: jwt", "goes with kind jwt, which needs it"},
		"a time of its own":       {"kind: bearer", `kind: jwt, key_id: k, claims: { exp: "1" }`, "is what Oncegate sets"},
		"an unknown claim":        {"kind: bearer", `kind: jwt, key_id: k, claims: { iss: "{{issuer}}" }`, "{{issuer}} is not known"},
		"a page without its rule": {", next: next", "", "goes with kind token, url or links, which need it"},
		"the query of a GET":      {"param: page", "param: page, query: true", "that of a GET is in the query anyway"},
		"signed, with an id":      {"order: newest", "order: newest\n  signed: true", "goes without id, created and redeliver"},
		"the oldest without end":  {"order: newest", "order: oldest", ""},
		"no order":                {"order: newest", "order: any", "known are newest, oldest, unknown"},
		"a body of a GET":         {"path: /events", "path: /events\n  body: '{}'", "a POST has one, and a GET has none"},
		"no wrap":                 {"id: id\n  created", "wrap: '[]'\n  id: id\n  created", "needs {{event}} once"},
		"the credential twice":    {"time: s", "time: s\n  headers: { Authorization: x }", "is what auth sends"},
	} {
		text := strings.Replace(listed, test.old, test.new, 1)
		if text == listed {
			t.Fatalf("%s: nothing was replaced", name)
		}
		_, err := providers.Parse("listed", []byte(text))
		if test.want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// A value of the source or of the sender changes neither the host nor the other parts of a request.
func TestListRequestsAreEscaped(t *testing.T) {
	t.Parallel()
	p, err := providers.Parse("listed", []byte(listed))
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.Listing(providers.Reconciling{Params: map[string]string{"account": "a&b=c#/../"}})
	if err != nil {
		t.Fatal(err)
	}
	since := time.Unix(1700000000, 0)
	request, err := list.Request(since, since.Add(time.Hour), "x&page=1")
	if want := "https://api.example.com/events?account=a%26b%3Dc%23%2F..%2F&after=1700000000&page=x%26page%3D1"; err != nil || request.URL != want || request.Method != http.MethodGet {
		t.Errorf("%+v, %v, want %s", request, err, want)
	}
	page, err := list.Page([]byte(`{"data":[{"id":"e1","created":1700000001},{"created":1},{"id":"e2","created":1700000002,"id":"e3"}],"next":"n"}`), http.Header{}, since)
	if err != nil || len(page.Events) != 3 || page.Next != "n" {
		t.Fatalf("%+v, %v", page, err)
	}
	if e := page.Events[0]; e.ID != "e1" || e.Unusable != "" || len(e.Items) != 1 || !e.Created.Equal(time.Unix(1700000001, 0)) {
		t.Errorf("%+v", e)
	}
	for _, e := range page.Events[1:] { // no id, and two
		if e.Unusable == "" {
			t.Errorf("%+v is usable", e)
		}
	}
	if _, err := list.Page([]byte(`{"error":"no list"}`), http.Header{}, since); err == nil {
		t.Error("an answer without the list was read")
	}
}
