package providers_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

// TestFormBatch checks that a batch inside a form results in its events, each with its encoded
// bytes.
func TestFormBatch(t *testing.T) {
	t.Parallel()
	p := load(t, "mandrill")
	events := `[{"event":"send","_id":"a b","ts":1} , {"event":"open","_id":"é+%","ts":2},{"none":1}]`
	const address = "https://hooks.example.com/in/mandrill/"
	body := "x=1&mandrill_events=" + url.QueryEscape(events)
	mac := hmac.New(sha1.New, []byte("key"))
	mac.Write([]byte(address + "mandrill_events" + events + "x1"))
	req := &providers.Request{Method: http.MethodPost, URL: address, Header: http.Header{}, Body: []byte(body), ReceivedAt: noon}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Mandrill-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	d, err := p.Verify(req, []providers.Secret{{Name: "s", Value: []byte("key")}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`{"event":"send","_id":"a b","ts":1}`, `{"event":"open","_id":"é+%","ts":2}`, `{"none":1}`}
	if len(d.Items) != len(want) {
		t.Fatalf("%d items: %+v", len(d.Items), d.Items)
	}
	for i, item := range d.Items {
		got, err := url.QueryUnescape(body[item.Offset : item.Offset+item.Length])
		if err != nil || got != want[i] {
			t.Errorf("item %d is %q, %v", i, got, err)
		}
	}
	if !isDigest(d.Items[0]) || d.Items[0].Type != "send" || !isDigest(d.Items[2]) || d.Items[2].Type != providers.TypeUnknown {
		t.Errorf("%+v", d.Items)
	}
}

// Arrays inside an array are one batch; an element without the inner array is
// itself an event.
func TestNestedBatch(t *testing.T) {
	t.Parallel()
	body := `{"object":"page","entry":[{"id":"1","time":5,"changes":[{"field":"feed","value":{"n":1}},{"field":"feed","value":{"n":2}}]},` +
		`{"id":"2","time":6,"messaging":[]},{"id":"3","time":5,"changes":[{"field":"feed","value":{"n":1}}]},{"id":"4","time":7,"changes":[]}]}`
	items := accept(t, load(t, "meta"), body)
	if len(items) != 4 {
		t.Fatalf("%d items: %+v", len(items), items)
	}
	seen := map[string]bool{}
	for _, item := range items {
		if item.Unusable != "" || seen[item.EventID] {
			t.Errorf("%+v", item)
		}
		seen[item.EventID] = true
	}
	if items[0].Type != "page.feed" || items[0].OccurredAt.Unix() != 5 {
		t.Errorf("%+v", items[0])
	}
	if got := body[items[1].Offset : items[1].Offset+items[1].Length]; got != `{"field":"feed","value":{"n":2}}` {
		t.Errorf("the second is %s", got)
	}
	again := accept(t, load(t, "meta"), strings.Replace(body, `{"field":"feed","value":{"n":1}}`, `{"value": {"n":1}, "field":"feed"}`, 1))
	if again[0].EventID != items[0].EventID {
		t.Error("the id depends on how the change is written")
	}
}

// What a signature does not reach is never used.
func TestUncovered(t *testing.T) {
	t.Parallel()
	p := load(t, "segment")
	first := `{"type":"track","event":"A","messageId":"m1"}`
	mac := hmac.New(sha1.New, []byte("shared"))
	mac.Write([]byte(first))
	req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, ReceivedAt: noon, Body: []byte("[" + first + `,{"type":"track","messageId":"forged"}]`)}
	req.Header.Set("X-Signature", hex.EncodeToString(mac.Sum(nil)))
	d, err := p.Verify(req, []providers.Secret{{Name: "s", Value: []byte("shared")}})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Items) != 2 || d.Items[0].EventID != "m1" || d.Items[1].EventID != "" || d.Items[1].Unusable == "" {
		t.Errorf("%+v", d.Items)
	}
}
