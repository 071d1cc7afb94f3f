package providers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// accept signs a body as the provider would and returns its items.
func accept(t *testing.T, p *providers.Provider, body string, headers ...string) []providers.Item {
	t.Helper()
	secret := providers.Secret{Name: "s", Value: []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}
	req := &providers.Request{Method: http.MethodPost, Body: []byte(body), ReceivedAt: noon, Header: http.Header{}}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if err := p.Sign(req, secret, ""); err != nil {
		t.Fatal(err)
	}
	d, err := p.Verify(req, []providers.Secret{secret})
	if err != nil {
		t.Fatal(err)
	}
	return d.Items
}

func custom(tb testing.TB, spec string) *providers.Provider {
	tb.Helper()
	p, err := catalog.Parse("custom", []byte(spec))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestStripeEvent(t *testing.T) {
	t.Parallel()
	stripe := load(t, "stripe")
	snapshot := `{"id":"evt_1","object":"event","created":1714000000,"data":{"object":{"id":"in_1"}},"type":"invoice.paid"}`
	item := accept(t, stripe, snapshot)[0]
	want := providers.Item{
		EventID: "evt_1", Type: "invoice.paid", OccurredAt: time.Unix(1714000000, 0).UTC(), Dated: true,
		SequenceKey: "in_1", SequenceNumber: "1714000000000000000", Length: len(snapshot),
	}
	if item != want {
		t.Errorf("snapshot: %+v", item)
	}
	thin := `{"id":"evt_2","object":"v2.core.event","type":"v1.billing.meter.error","created":"2024-04-24T23:06:40.5Z","related_object":{"id":"mtr_1"}}`
	item = accept(t, stripe, thin)[0]
	if item.EventID != "evt_2" || item.SequenceKey != "mtr_1" || item.SequenceNumber != "1714000000500000000" ||
		!item.OccurredAt.Equal(time.Unix(1714000000, 5e8)) {
		t.Errorf("thin: %+v", item)
	}
}

// TestUnusable checks that every signed event is admitted, and that an unusable one says why.
func TestUnusable(t *testing.T) {
	t.Parallel()
	stripe := load(t, "stripe")
	deep := strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65)
	for name, c := range map[string]struct{ body, why string }{
		"long id":            {`{"id":"` + strings.Repeat("a", 256) + `"}`, "longer"},
		"NUL in id":          {`{"id":"a\u0000"}`, "control"},
		"newline in id":      {`{"id":"a\nb"}`, "control"},
		"invalid UTF-8":      {"{\"id\":\"\xff\"}", "text"},
		"lone surrogate":     {`{"id":"\ud800"}`, "text"},
		"two ids":            {`{"id":"a","id":"b"}`, "twice"},
		"two ids, escaped":   {`{"id":"a","\u0069d":"b"}`, "twice"},
		"two parents":        {`{"id":"a","data":{"object":{"id":1}},"data":{}}`, "twice"},
		"our own form":       {`{"id":"~` + strings.Repeat("0", 64) + `"}`, "form"},
		"not JSON":           {`hello`, "not JSON"},
		"empty":              {``, "not JSON"},
		"cut off":            {`{"id":"a"`, "not JSON"},
		"trailing":           {`{"id":"a"}{}`, "not JSON"},
		"trailing comma":     {`{"id":"a",}`, "not JSON"},
		"comment":            {`{"id":"a"/**/}`, "not JSON"},
		"bad escape":         {`{"id":"a","x":"\q"}`, "not JSON"},
		"control inside":     {"{\"id\":\"a\",\"x\":\"\x01\"}", "not JSON"},
		"bad number":         {`{"id":"a","x":01}`, "not JSON"},
		"mismatched bracket": {`{"id":"a","x":[}]}`, "not JSON"},
		"too deep":           {`{"id":"a","x":` + deep + `}`, "deeper"},
		"long type":          {`{"id":"a","type":"` + strings.Repeat("t", 256) + `"}`, "type"},
	} {
		items := accept(t, stripe, c.body)
		if len(items) != 1 || items[0].EventID != "" || !strings.Contains(items[0].Unusable, c.why) {
			t.Errorf("%s: %+v", name, items)
		}
		if items[0].Length != len(c.body) {
			t.Errorf("%s: the item is not the whole body", name)
		}
	}
}

func TestUsable(t *testing.T) {
	t.Parallel()
	stripe := load(t, "stripe")
	for body, id := range map[string]string{
		`{"id":"a"}`:                                "a",
		` { "id" : "a" , "x":[ ] , "y":{ } } `:      "a",
		`{"id":9007199254740993}`:                   "9007199254740993",
		`{"id":"\u00e9\uD83D\uDE00"}`:               "é😀",
		`{"x":{"id":"inner"},"id":"outer"}`:         "outer",
		`{"\u0069d":"escaped"}`:                     "escaped",
		`{"id":"` + strings.Repeat("a", 255) + `"}`: strings.Repeat("a", 255),
		`{"a":[[],[{}],{"b":[1,-0.5e+3,true,false,null,"\\\""]}],"id":"after"}`:    "after",
		`{"x":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `,"id":"d"}`: "d",
	} {
		if item := accept(t, stripe, body)[0]; item.EventID != id || item.Unusable != "" {
			t.Errorf("%s: %+v", body, item)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	p := custom(t, `
extends: hmac
split: { json: events }
identity: { candidates: [{ json: id }] }
type: [{ json: kind }, { envelope: kind }]
sequence: { kind: contiguous, candidates: [{ key: { envelope: account }, number: { json: seq } }] }
`)
	body := `{"kind":"batch","account":"acc","events":[ {"id":"a","seq":7,"kind":"own"} ,{"id":"b","seq":"0008"}, {"nothing":1}, 5]}`
	items := accept(t, p, body)
	if len(items) != 4 {
		t.Fatalf("%d items", len(items))
	}
	if items[0].EventID != "a" || items[0].Type != "own" || items[0].SequenceKey != "acc" || items[0].SequenceNumber != "7" {
		t.Errorf("first: %+v", items[0])
	}
	if items[1].EventID != "b" || items[1].Type != "batch" || items[1].SequenceNumber != "8" {
		t.Errorf("second: %+v", items[1])
	}
	if items[2].Type != "batch" || items[3].Type != "batch" || !isDigest(items[2]) || !isDigest(items[3]) || items[2].EventID == items[3].EventID {
		t.Errorf("without ids: %+v %+v", items[2], items[3])
	}
	if got := body[items[1].Offset : items[1].Offset+items[1].Length]; got != `{"id":"b","seq":"0008"}` {
		t.Errorf("bytes of the second: %s", got)
	}
	if items := accept(t, p, `{"events":[]}`); len(items) != 0 {
		t.Errorf("an empty batch has %d events", len(items))
	}
	for _, body := range []string{`{}`, `{"events":{}}`, `{"events":null}`} {
		if items := accept(t, p, body); len(items) != 1 || !isDigest(items[0]) || items[0].Type != providers.TypeUnknown || !items[0].Unknown {
			t.Errorf("%s: %+v", body, items)
		}
	}
	form := accept(t, p, "payload=%7B%22events%22%3A%5B%7B%22id%22%3A1%7D%5D%7D", "Content-Type", "application/x-www-form-urlencoded")
	if len(form) != 1 || form[0].Unusable == "" {
		t.Errorf("a batch in a form: %+v", form)
	}
	root := custom(t, "extends: hmac\nsplit: { json: $ }\n")
	if items := accept(t, root, `[{"id":1},{"id":2}]`); len(items) != 2 || items[1].EventID != "2" {
		t.Errorf("root: %+v", items)
	}
}

// No two different pairs of values may join to one id.
func TestJoinedIDs(t *testing.T) {
	t.Parallel()
	p := custom(t, `
extends: hmac
identity: { unique_source: "https://example.com/docs", candidates: [{ join: [{ json: a }, { json: b }], with: "|" }] }
`)
	seen := map[string]string{}
	for _, body := range []string{`{"a":"x|y","b":"z"}`, `{"a":"x","b":"y|z"}`, `{"a":"x","b":"y"}`, `{"a":"x|","b":"y"}`, `{"a":"x","b":"|y"}`, `{"a":"x%7c","b":"y"}`, `{"a":"x%","b":"7cy"}`} {
		item := accept(t, p, body)[0]
		if other, taken := seen[item.EventID]; taken || item.EventID == "" {
			t.Errorf("%s and %s both have %q", body, other, item.EventID)
		}
		seen[item.EventID] = body
	}
	hashed := custom(t, "extends: hmac\nidentity: { mode: hash, unique_source: 'https://example.com/docs', hash: [{ json: a }, { json: b }] }\n")
	if item := accept(t, hashed, `{"a":"xy"}`)[0]; !isDigest(item) {
		t.Errorf("without a part: %+v", item)
	}
	one, two := accept(t, hashed, `{"a":"xy","b":"z","n":1}`)[0], accept(t, hashed, `{"a":"x","b":"yz"}`)[0]
	if one.EventID == two.EventID || len(one.EventID) != 64 {
		t.Errorf("hashes %q and %q", one.EventID, two.EventID)
	}
	if again := accept(t, hashed, `{"n":2,"b":"z","a":"xy"}`)[0]; again.EventID != one.EventID {
		t.Error("the hash depends on a field that is not named")
	}
}

func TestSlackShapes(t *testing.T) {
	t.Parallel()
	slack := load(t, "slack")
	form := "application/x-www-form-urlencoded"
	for name, c := range map[string]struct{ media, body, id, kind string }{
		"event":         {"application/json", `{"type":"event_callback","event_id":"Ev1","event":{"type":"message"}}`, "Ev1", "message"},
		"interactivity": {form, "payload=%7B%22type%22%3A%22block_actions%22%2C%22trigger_id%22%3A%221.2%22%7D", "", "block_actions"},
		"slash command": {form + "; charset=utf-8", "command=%2Fweather&trigger_id=13.7&text=94070", "", "/weather"},
	} {
		item := accept(t, slack, c.body, "Content-Type", c.media)[0]
		if item.EventID != c.id && (c.id != "" || !isDigest(item)) || item.Type != c.kind || item.Unusable != "" {
			t.Errorf("%s: %+v", name, item)
		}
	}
	for _, body := range []string{"%zz", strings.Repeat("a=1&", 2000)} {
		if item := accept(t, slack, body, "Content-Type", form)[0]; item.Unusable == "" {
			t.Errorf("%.20s: %+v", body, item)
		}
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	stripe := load(t, "stripe")
	same := [][2]string{
		{`{"a":1,"b":2}`, ` { "b" : 2 , "a" : 1 } `},
		{`{"id":"x","pending_webhooks":1}`, `{"id":"x","pending_webhooks":2}`},
		{`{"id":"x","pending_webhooks":1}`, `{"id":"x"}`},
		{`"\u00e9\/\n"`, `"é/\u000a"`},
	}
	for _, pair := range same {
		a, okA := stripe.Canonical([]byte(pair[0]))
		b, okB := stripe.Canonical([]byte(pair[1]))
		if !okA || !okB || string(a) != string(b) {
			t.Errorf("%s and %s: %s and %s", pair[0], pair[1], a, b)
		}
		if d := stripe.Differences([]byte(pair[0]), []byte(pair[1])); len(d) != 0 {
			t.Errorf("%s and %s differ in %v", pair[0], pair[1], d)
		}
	}
	different := map[string][2]string{
		"a":                  {`{"a":1}`, `{"a":1.0}`},
		"a.b":                {`{"a":{"b":"x"}}`, `{"a":{"b":"y"}}`},
		"a.1":                {`{"a":[1,2]}`, `{"a":[1]}`},
		"b":                  {`{"a":1}`, `{"a":1,"b":null}`},
		"$":                  {`[]`, `{}`},
		"a.pending_webhooks": {`{"a":{"pending_webhooks":1}}`, `{"a":{"pending_webhooks":2}}`},
		"n":                  {`{"n":9007199254740993}`, `{"n":9007199254740992}`},
	}
	for path, pair := range different {
		if d := stripe.Differences([]byte(pair[0]), []byte(pair[1])); len(d) != 1 || d[0] != path {
			t.Errorf("%s and %s differ in %v, want %s", pair[0], pair[1], d, path)
		}
		a, _ := stripe.Canonical([]byte(pair[0]))
		b, _ := stripe.Canonical([]byte(pair[1]))
		if string(a) == string(b) {
			t.Errorf("%s and %s have one canonical form", pair[0], pair[1])
		}
	}
	for _, body := range []string{``, `{`, `{"a":1,"a":2}`, "\"\xff\"", `{"a":1}x`} {
		if got, ok := stripe.Canonical([]byte(body)); ok {
			t.Errorf("%q has the canonical form %s", body, got)
		}
	}
	var a, b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&a, `,"k%02d":1`, i)
		fmt.Fprintf(&b, `,"k%02d":2`, i)
	}
	if d := stripe.Differences([]byte("{"+a.String()[1:]+"}"), []byte("{"+b.String()[1:]+"}")); len(d) != 20 {
		t.Errorf("%d differences", len(d))
	}
}

func TestOperation(t *testing.T) {
	t.Parallel()
	p := load(t, "operation")
	secrets := []providers.Secret{{Name: "agent", Value: []byte("one")}, {Name: "forms", Value: []byte("two")}, {Name: "agent", Value: []byte("three")}}
	if err := p.CheckSecrets(secrets); err != nil {
		t.Fatal(err)
	}
	call := func(token, operation, key string) (*providers.Delivery, error) {
		req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte("{}"), ReceivedAt: noon}
		req.Header.Set("Authorization", "bearer "+token)
		req.Header.Set("Oncegate-Operation", operation)
		req.Header.Set("Idempotency-Key", key)
		return p.Verify(req, secrets)
	}
	d, err := call("one", "refund", "k:1")
	if err != nil || d.Items[0].EventID != "agent:refund:k:1" || d.Items[0].Type != "refund" || d.Secret != "agent" {
		t.Errorf("%+v, %v", d, err)
	}
	if rotated, err := call("three", "refund", "k:1"); err != nil || rotated.Items[0].EventID != d.Items[0].EventID {
		t.Error("the rotated secret of one credential gives another id")
	}
	if other, err := call("two", "refund", "k:1"); err != nil || other.Items[0].EventID == d.Items[0].EventID {
		t.Error("two credentials share an id")
	}
	if err := p.CheckSecrets([]providers.Secret{{Name: "a:b", Value: []byte("x")}}); err == nil {
		t.Error("a credential with a colon is taken")
	}
	if r := p.Answer(providers.Accepted, "u", "recorded"); r.Status != 202 || string(r.Body) != `{"event":"u","status":"recorded"}` {
		t.Errorf("answer %+v", r)
	}
	if !p.IsOperation() || load(t, "stripe").IsOperation() {
		t.Error("IsOperation")
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	stripe := load(t, "stripe")
	if r := stripe.Answer(providers.Accepted, "u", "duplicate"); r.Status != 200 || r.ContentType != "application/json" || string(r.Body) != `{"event":"u","status":"duplicate"}` {
		t.Errorf("accepted: %+v", r)
	}
	if r := stripe.Answer(providers.Refused, "", ""); r.Status != 401 || len(r.Body) != 0 {
		t.Errorf("refused: %+v", r)
	}
}

func TestEchoHandshake(t *testing.T) {
	t.Parallel()
	p := custom(t, `
extends: hmac
body: { form: false, form_json: "" }
handshakes:
  - name: subscribe
    method: GET
    verify: token
    token: { query: hub.verify_token }
    match: [{ query: hub.mode, equals: subscribe }, { query: hub.challenge }]
    respond: { body: "{{query hub.challenge}}" }
  - name: crc
    method: GET
    verify: query-signature
    match: [{ query: crc_token }]
    respond: { content_type: application/json, body: '{"response_token":"sha256={{hmac_base64 query crc_token}}"}' }
`)
	secrets := []providers.Secret{{Name: "s", Value: []byte("t0ken")}}
	header := http.Header{}
	get := func(query string) (providers.Reply, bool, error) {
		return p.Handshake(&providers.Request{Method: http.MethodGet, URL: "https://x.example/in/a?" + query, Header: header, ReceivedAt: noon}, secrets)
	}
	r, ok, err := get("hub.mode=subscribe&hub.verify_token=t0ken&hub.challenge=115")
	if err != nil || !ok || r.Status != 200 || string(r.Body) != "115" || r.ContentType != "text/plain" || r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%+v %v %v", r, ok, err)
	}
	if _, ok, err := get("hub.mode=subscribe&hub.verify_token=wrong&hub.challenge=115"); !ok || err == nil {
		t.Error("a wrong token is answered")
	}
	if _, ok, err := get("hub.mode=subscribe&hub.verify_token=t0ken&hub.challenge=%0d%0aX"); !ok || err == nil {
		t.Error("a line break is echoed")
	}
	if _, ok, err := get("hub.mode=subscribe&hub.mode=x&hub.verify_token=t0ken&hub.challenge=1"); ok && err == nil {
		t.Error("an ambiguous query is answered")
	}
	if r, ok, err := get("crc_token=abc"); !ok || err == nil {
		t.Errorf("whoever asks gets a signature: %+v", r)
	}
	// Computed with another library: hex HMAC-SHA256 of "crc_token=abc", base64
	// HMAC-SHA256 of "abc", both under "t0ken".
	header.Set("X-Hub-Signature-256", "sha256=aa0088718cc987db4e5824e8df1b5cb30c69474b05bae3d55a958eb7459635be")
	if r, ok, err := get("crc_token=abc"); err != nil || !ok || string(r.Body) != `{"response_token":"sha256=yW/gcmMdix+JWyCWr4eYqrlqVNEMaESmAiG3D829AjM="}` {
		t.Errorf("%+v %v %v", r, ok, err)
	}
	if methods := p.Limits().Methods; len(methods) != 2 || methods[0] != "GET" {
		t.Errorf("methods %v", methods)
	}
}

// The bound on signatures, and keys of one scheme used for another.
func TestStandardWebhooksBounds(t *testing.T) {
	t.Parallel()
	p := load(t, "standard-webhooks")
	for _, bad := range []string{"not base64!", "whpk_AAAA", "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==", "whsec_"} {
		err := p.CheckSecrets([]providers.Secret{{Name: "n", Value: []byte(bad)}})
		if err == nil {
			t.Errorf("%s is taken", bad)
		} else if strings.Contains(err.Error(), bad) {
			t.Errorf("%v contains the secret", err)
		}
	}
	many := make([]providers.Secret, 9)
	for i := range many {
		many[i] = providers.Secret{Name: fmt.Sprint(i), Value: []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}
	}
	if err := p.CheckSecrets(many); err == nil {
		t.Error("nine secrets are taken")
	}
	if err := p.CheckSecrets([]providers.Secret{many[0], many[0]}); err == nil {
		t.Error("two secrets of one name are taken")
	}
}
