package providertest_test

import (
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// facts are custom providers as a user would write them who has only read how a
// sender signs: header, algorithm, encoding, signed parts. None extends a file
// of the catalogue.
var facts = map[string]string{
	"bitbucket": `signature: { headers: [X-Hub-Signature], prefix: "sha256=", schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  signed: [body]`,
	"circleci": `signature: { headers: [circleci-signature], format: list, separator: ",", assign: "=", schemes: [{ label: v1, algorithm: hmac-sha256, encoding: hex }] }
  signed: [body]`,
	"x": `signature: { headers: [x-twitter-webhooks-signature], prefix: "sha256=", schemes: [{ algorithm: hmac-sha256, encoding: base64 }] }
  signed: [body]`,
	"line": `signature: { headers: [X-Line-Signature], schemes: [{ algorithm: hmac-sha256, encoding: base64 }] }
  signed: [body]`,
	"viber": `signature: { headers: [X-Viber-Content-Signature], schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  signed: [body]`,
	"zoom": `signature: { headers: [x-zm-signature], prefix: "v0=", schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  signed: [{ literal: "v0:" }, timestamp, { literal: ":" }, body]
  timestamp: { from: header, header: x-zm-request-timestamp }`,
	"ms-teams-outgoing": `signature: { headers: [Authorization], prefix: "HMAC ", schemes: [{ algorithm: hmac-sha256, encoding: base64, key: base64 }] }
  signed: [body]`,
	"twitch": `signature: { headers: [Twitch-Eventsub-Message-Signature], prefix: "sha256=", schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  signed: [{ header: Twitch-Eventsub-Message-Id }, timestamp, body]
  timestamp: { from: header, header: Twitch-Eventsub-Message-Timestamp, unit: rfc3339, past: 600s, future: 600s }`,
	"customerio": `signature: { headers: [X-CIO-Signature], schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  signed: [{ literal: "v0:" }, timestamp, { literal: ":" }, body]
  timestamp: { from: header, header: X-CIO-Timestamp }`,
	"zendesk": `signature: { headers: [X-Zendesk-Webhook-Signature], schemes: [{ algorithm: hmac-sha256, encoding: base64 }] }
  signed: [timestamp, body]
  timestamp: { from: header, header: X-Zendesk-Webhook-Signature-Timestamp, unit: rfc3339 }`,
	"intercom": `signature: { headers: [X-Hub-Signature], prefix: "sha1=", schemes: [{ algorithm: hmac-sha1, encoding: hex }] }
  signed: [body]`,
	"calendly": `signature: { headers: [Calendly-Webhook-Signature], format: list, separator: ",", assign: "=", timestamp_label: t, schemes: [{ label: v1, algorithm: hmac-sha256, encoding: hex }] }
  signed: [timestamp, { literal: "." }, body]
  timestamp: { from: signature, past: 180s }`,
	"linear": `signature: { headers: [Linear-Signature], schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  signed: [body]
  timestamp: { from: json, path: webhookTimestamp, unit: ms, past: 60s, future: 60s }`,
	"trello": `signature: { headers: [X-Trello-Webhook], schemes: [{ algorithm: hmac-sha1, encoding: base64 }] }
  signed: [body, url]`,
	"airtable": `signature: { headers: [X-Airtable-Content-MAC], prefix: "hmac-sha256=", schemes: [{ algorithm: hmac-sha256, encoding: hex, key: base64 }] }
  signed: [body]`,
	"sanity": `signature: { headers: [sanity-webhook-signature], format: list, separator: ",", assign: "=", timestamp_label: t, schemes: [{ label: v1, algorithm: hmac-sha256, encoding: base64url }] }
  signed: [timestamp, { literal: "." }, body]
  timestamp: { from: signature, unit: ms }`,
	"cloudinary": `signature: { headers: [X-Cld-Signature], schemes: [{ algorithm: sha1, encoding: hex }, { algorithm: sha256, encoding: hex }] }
  signed: [body, timestamp, secret]
  timestamp: { from: header, header: X-Cld-Timestamp, past: 7200s }`,
	"docusign": `signature: { from: numbered-headers, headers: [X-DocuSign-Signature-N], schemes: [{ algorithm: hmac-sha256, encoding: base64 }] }
  signed: [body]`,
	"persona": `signature: { headers: [Persona-Signature], format: groups, separator: ",", assign: "=", timestamp_label: t, schemes: [{ label: v1, algorithm: hmac-sha256, encoding: hex }] }
  signed: [timestamp, { literal: "." }, body]
  timestamp: { from: signature }`,
	"mailgun": `authenticates: part
  signature: { from: json, path: signature.signature, schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  signed: [{ json: signature.timestamp }, { json: signature.token }]`,
}

// A few lines of YAML verify what the sender signs, and nothing else.
func TestFacts(t *testing.T) {
	t.Parallel()
	for name, verify := range facts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := providers.Parse(name, []byte("docs: https://example.com/"+name+"\nverify:\n  family: hmac\n  "+verify+
				"\nbody: { format: any, form: true, form_json: payload }\nidentity: { candidates: [{ json: id }] }\n"))
			if err != nil {
				t.Fatal(err)
			}
			vectors, err := providertest.Vectors(testdata.Files, name)
			if err != nil {
				t.Fatal(err)
			}
			valid := 0
			for i := range vectors {
				v := &vectors[i]
				if v.Kind == "handshake" {
					continue
				}
				if _, err := p.Verify(v.Request(), v.Secrets()); (err == nil) != v.Valid {
					t.Errorf("%s: valid %v, but %v", v.Case, v.Valid, err)
				}
				if v.Valid {
					valid++
				}
			}
			if valid == 0 {
				t.Error("no valid vector")
			}
		})
	}
	if len(facts) < 10 {
		t.Error("fewer than ten")
	}
}
