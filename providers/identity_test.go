package providers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

// isDigest reports whether an event has the digest of its payload for an id.
func isDigest(item providers.Item) bool {
	return item.Unusable == "" && strings.HasPrefix(item.EventID, "sha256:")
}

// TestWithoutAnID checks that a verified event without a readable id is identified by the digest of
// its payload and is not a dead letter.
func TestWithoutAnID(t *testing.T) {
	t.Parallel()
	stripe := load(t, "stripe")
	seen := map[string]string{}
	for _, body := range []string{
		`{"type":"x"}`, `{"id":"","type":"x"}`, `{"id":null,"type":"x"}`, `{"id":{},"type":"x"}`, `{"id":true,"type":"x"}`, `{"id":1.5,"type":"x"}`,
		`{"id":1e3,"type":"x"}`, `{"type":"x","pending":1}`, `{"type":"x","data":{"a":[1,2]}}`, `{"type":"x","data":{"a":[2,1]}}`, `{"type":"x","data":{"a":["1,2"]}}`,
	} {
		item := accept(t, stripe, body)[0]
		if !isDigest(item) || item.Type != "x" || item.Unknown || seen[item.EventID] != "" {
			t.Errorf("%s: %+v, and %s has the id", body, item, seen[item.EventID])
		}
		seen[item.EventID] = body
	}
	for _, same := range []string{` { "type" : "\u0078" } `, `{"type":"x","pending_webhooks":3}`} {
		if item := accept(t, stripe, same)[0]; seen[item.EventID] != `{"type":"x"}` {
			t.Errorf("%s has an id of its own: %s", same, item.EventID)
		}
	}
	if item := accept(t, stripe, `{"object":"event"}`)[0]; !isDigest(item) || item.Type != providers.TypeUnknown || !item.Unknown {
		t.Errorf("no rule fits: %+v", item)
	}
	if item := accept(t, stripe, `{"id":"a"}`)[0]; item.EventID != "a" || item.Type != providers.TypeUnknown || !item.Unknown {
		t.Errorf("an id and no type: %+v", item)
	}
	// A key twice where nothing is read has no canonical form; its bytes count.
	one, two := accept(t, stripe, `{"a":1,"a":2}`)[0], accept(t, stripe, `{"a":2,"a":1}`)[0]
	if !isDigest(one) || !isDigest(two) || one.EventID == two.EventID {
		t.Errorf("a key twice: %+v %+v", one, two)
	}
}

// TestTransmission checks that an event of a provider with transmissions has both keys, and that one that cannot be used keeps
// the transmission, so that damaged bodies under one signature do not become many events.
func TestTransmission(t *testing.T) {
	t.Parallel()
	p := custom(t, `
extends: hmac
verify: { authenticates: part, signed: [{ header: [X-Transmission] }] }
identity: { candidates: [{ json: id }], transmission: [{ header: X-Transmission }] }
`)
	if p.IDUnsigned() {
		t.Error("one captured delivery is one event, and the id counts as unsigned")
	}
	for _, c := range []struct{ body, transmission, id, unusable string }{
		{`{"id":"e1"}`, "t1", "e1", ""},
		{`{"id":`, "t1", "", "body: "},
		{`{"id":"e1"}`, strings.Repeat("t", 256), "", "transmission: "},
	} {
		req := &providers.Request{Method: http.MethodPost, URL: "https://example.com/hook", Header: http.Header{}, Body: []byte(c.body), ReceivedAt: time.Now()}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Transmission", c.transmission)
		mac := hmac.New(sha256.New, []byte("secret"))
		mac.Write([]byte(c.transmission))
		req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		delivery, err := p.Verify(req, []providers.Secret{{Name: "a", Value: []byte("secret")}})
		if err != nil {
			t.Fatal(err)
		}
		item := delivery.Items[0]
		want := c.transmission
		if len(want) > 255 {
			want = ""
		}
		if item.EventID != c.id || item.Transmission != want || !strings.HasPrefix(item.Unusable, c.unusable) || (item.Unusable == "") != (c.unusable == "") {
			t.Errorf("%s under %.5s: %+v", c.body, c.transmission, item)
		}
	}
}

// TestDigestScope checks that a digest includes the fields outside the payload that the spec names
// or that contain the type.
func TestDigestScope(t *testing.T) {
	t.Parallel()
	p := custom(t, `
extends: hmac
identity: { mode: digest, with: [{ header: X-Shop }] }
type: [{ header: X-Topic }]
volatile: [attempt, items.*.at]
`)
	id := func(body string, headers ...string) string {
		item := accept(t, p, body, headers...)[0]
		if !isDigest(item) {
			t.Fatalf("%+v", item)
		}
		return item.EventID
	}
	const body = `{"a":1,"attempt":1,"items":[{"at":1,"n":2}]}`
	first := id(body, "X-Shop", "s", "X-Topic", "t")
	for name, other := range map[string]string{
		"topic": id(body, "X-Shop", "s", "X-Topic", "u"), "shop": id(body, "X-Shop", "t", "X-Topic", "t"),
		"no shop": id(body, "X-Topic", "t"), "swapped": id(body, "X-Shop", "t", "X-Topic", "s"),
		"payload": id(strings.Replace(body, `"n":2`, `"n":3`, 1), "X-Shop", "s", "X-Topic", "t"),
	} {
		if other == first {
			t.Errorf("%s: the same id", name)
		}
	}
	retry := strings.NewReplacer(`"attempt":1`, `"attempt":2`, `"at":1`, `"at":2`).Replace(body)
	if id(retry, "X-Shop", "s", "X-Topic", "t", "X-Request-Id", "r") != first {
		t.Error("a retry has an id of its own")
	}
}

// Two equal elements of one batch are two events; the same batch again is the same two.
func TestTwins(t *testing.T) {
	t.Parallel()
	p := custom(t, "\nextends: hmac\nsplit: { json: events }\nidentity: { mode: digest }\n")
	const body = `{"events":[{"a":1},{"a":2},{ "a":1},{"a":1}]}`
	items, again := accept(t, p, body), accept(t, p, body)
	seen := map[string]bool{}
	for i := range items {
		if !isDigest(items[i]) || seen[items[i].EventID] || again[i].EventID != items[i].EventID {
			t.Errorf("%+v", items[i])
		}
		seen[items[i].EventID] = true
	}
	alone := accept(t, p, `{"events":[{"a":1}]}`)
	if alone[0].EventID != items[0].EventID {
		t.Error("an event's id depends on what is beside it")
	}
}

// Where a kind of event says the same each time, each delivery of it is an event.
func TestLevelWhen(t *testing.T) {
	t.Parallel()
	p := custom(t, `
extends: hmac
identity: { mode: digest, level_when: [{ json: kind, equals: inventory }, { json: history, absent: true }] }
`)
	read := func(body string, at time.Time) string {
		req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(body), ReceivedAt: at}
		items := p.Inspect(req).Items
		if len(items) != 1 || items[0].Unusable != "" {
			t.Fatalf("%+v", items)
		}
		return items[0].EventID
	}
	for body, level := range map[string]bool{
		`{"kind":"inventory","history":[1]}`: true, `{"kind":"x"}`: true, `{"kind":"x","history":null}`: true,
		`{"kind":"x","history":[1]}`: false, `{"kind":{},"history":{}}`: false,
	} {
		if differs := read(body, noon) != read(body, noon.Add(time.Second)); differs != level {
			t.Errorf("%s: a second delivery is another event: %v", body, differs)
		}
	}
	nothing := custom(t, "\nextends: hmac\nbody: { format: any }\n")
	p = nothing
	if read("", noon) == read("", noon.Add(time.Second)) {
		t.Error("two deliveries with nothing in them are one event")
	}
}

// TestIdentityReplaced checks that an identity in a spec inherits nothing from the rule that it
// replaces.
func TestIdentityReplaced(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"extends: zoom\nidentity: { candidates: [{ json: event_ts }] }":                    "",
		"extends: stripe\nidentity: { mode: digest }":                                      "",
		"extends: stripe\nidentity: { mode: level }":                                       "",
		"extends: adyen\nidentity: { candidates: [{ join: [{ json: a }, { json: b }] }] }": "identity.unique_source",
	} {
		_, err := catalog.Parse("custom", []byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A header is the whole delivery's: it names no event of a batch, or all of them
// would be one.
func TestHeaderNamesNoEventOfABatch(t *testing.T) {
	t.Parallel()
	p := custom(t, "\nextends: hmac\nsplit: { json: $ }\nidentity: { candidates: [{ header: X-Delivery }, { json: id }] }\n")
	items := accept(t, p, `[{"id":"a"},{"n":1},{"n":2}]`, "X-Delivery", "d")
	if len(items) != 3 || items[0].EventID != "a" || !isDigest(items[1]) || !isDigest(items[2]) || items[1].EventID == items[2].EventID {
		t.Errorf("%+v", items)
	}
	if one := accept(t, p, `{"n":1}`, "X-Delivery", "d"); len(one) != 1 || one[0].EventID != "d" {
		t.Errorf("alone: %+v", one)
	}
}
