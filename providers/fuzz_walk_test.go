package providers_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/oncegate/oncegate/providers"
)

// What the walk finds at a path is what encoding/json finds there, in any spelling
// of any document; a key twice is the one thing that only the walk refuses.
func FuzzWalk(f *testing.F) {
	for _, document := range documents(f) {
		f.Add(bytes.Replace(document, []byte(`"id":"evt_1"`), []byte(`"data":{"object":{"id":"evt_1"}}`), 1))
	}
	for _, seed := range []string{
		`{"data":{"object":{"id":"a","id":"b"}}}`, `{"data":1,"data":{"object":{"id":"a"}}}`, `{"d\u0061ta":{"obj\u0065ct":{"id":"\ud83d\ude00"}}}`,
		`{"data":{"object":{"id":"\ud800"}}}`, "{\"data\":{\"object\":{\"\xff\":1,\"id\":\"\xff\"}}}", `{"data":{"object":{"x":[{},[],"]}"],"id":-12345678901234567890}}}`,
		`{"data":{"object":{"id":1e5}}}`, `{"data":{"object":{"id":01}}}`, "{\n  \"data\" : {\n\t\"object\": {\r\n          \"n\":1.5,\"t\":true, \"id\": \"#\x7f\" } } }",
		`{"data":{"object":{"long":"` + strings.Repeat("é#", 20) + `","n":12345678,"id":null}}}`,
	} {
		f.Add([]byte(seed))
	}
	p := custom(f, "\nextends: hmac\nidentity: { candidates: [{ json: data.object.id }] }\n")
	secret := providers.Secret{Name: "s", Value: []byte("secret")}
	f.Fuzz(func(t *testing.T, body []byte) {
		req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: body, ReceivedAt: noon}
		if err := p.Sign(req, secret, ""); err != nil {
			t.Fatal(err)
		}
		d, err := p.Verify(req, []providers.Secret{secret})
		if err != nil {
			t.Fatal(err)
		}
		item := d.Items[0]
		if strings.Contains(item.Unusable, "deeper") || strings.Contains(item.Unusable, "twice") || strings.ContainsRune(item.EventID, utf8.RuneError) {
			return // the last one is that of a text, or of none: encoding/json does not tell
		}
		if (item.Unusable == "body: not JSON") == json.Valid(body) {
			t.Fatalf("%q, but encoding/json says valid=%v", item.Unusable, json.Valid(body))
		}
		if want, ok := idOf(body); ok && item.EventID != want || !ok && item.EventID != "" && !isDigest(item) {
			t.Fatalf("id %q (%s), encoding/json says %q", item.EventID, item.Unusable, want)
		}
	})
}

// idOf is data.object.id as encoding/json reads it, if it is fit for an id.
func idOf(body []byte) (id string, ok bool) {
	var value any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if !json.Valid(body) || d.Decode(&value) != nil {
		return "", false
	}
	for _, name := range []string{"data", "object", "id"} {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	switch v := value.(type) {
	case json.Number:
		return v.String(), !strings.ContainsAny(v.String(), ".eE") && len(v) <= 255
	case string:
		// What is no text is a replacement character to encoding/json.
		fit := v != "" && len(v) <= 255 && !strings.ContainsRune(v, utf8.RuneError) && !strings.ContainsFunc(v, unicode.IsControl)
		return v, fit && !reservedID(v)
	}
	return "", false
}

// reservedID is the form of the keys of unusable events.
func reservedID(id string) bool { return strings.HasPrefix(id, "~") && len(id) == 65 }
