package providers_test

import (
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

// FuzzForms checks that no scheme with a signature in or next to a form accepts an unsigned
// request, that nothing panics, and that the positions of events are inside the body.
func FuzzForms(f *testing.F) {
	for _, seed := range []string{"mandrill_events=%5B%7B%7D%5D", "payload=%7B%7D&a=b", "a=1&sig=00&timestamp=1", `[{"a":1},2]`, `{"entry":[{"changes":[{}]}]}`, "%zz", "a&=&&"} {
		f.Add([]byte(seed), "https://x.example/in/a?bodySHA256=00&q=It's+amazing", "t=1,v1=00 t=2,v1=00")
	}
	loaded := map[string]*providers.Provider{}
	for _, name := range []string{"mandrill", "gitea", "travis", "twilio", "vonage-sms", "segment", "meta", "mailgun", "persona", "docusign", "box", "hubspot", "contentful", "messagebird", "jira-connect"} {
		loaded[name] = load(f, name)
	}
	secrets := []providers.Secret{{Name: "s", Value: []byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")}}
	f.Fuzz(func(t *testing.T, body []byte, address, value string) {
		for name, p := range loaded {
			req := &providers.Request{Method: http.MethodPost, URL: address, Header: http.Header{}, Body: body, ReceivedAt: noon}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for _, header := range []string{
				"X-Mandrill-Signature", "X-Gitea-Signature", "Signature", "X-Twilio-Signature", "X-Signature", "X-Hub-Signature-256", "Persona-Signature",
				"X-DocuSign-Signature-1", "BOX-SIGNATURE-PRIMARY", "X-HubSpot-Signature-v3", "X-Contentful-Signature", "X-Contentful-Signed-Headers", "MessageBird-Signature-JWT", "Authorization",
			} {
				req.Header.Set(header, value)
			}
			if _, err := p.Verify(req, secrets); err == nil {
				t.Fatalf("%s accepted %q", name, body)
			}
			if reply, ok, err := p.Handshake(req, secrets); ok && err == nil {
				t.Fatalf("%s answered %q with %+v", name, body, reply)
			}
		}
		for _, name := range []string{"mandrill", "gitea", "meta", "segment"} {
			req := &providers.Request{Method: http.MethodPost, URL: address, Header: http.Header{}, Body: body, ReceivedAt: noon}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if loaded[name].Sign(req, secrets[0], "e") != nil {
				continue
			}
			d, err := loaded[name].Verify(req, secrets)
			if err != nil {
				t.Fatalf("%s does not verify what it signed: %v", name, err)
			}
			for _, item := range d.Items {
				if item.Offset < 0 || item.Length < 0 || item.Offset+item.Length > len(body) || (item.EventID == "") == (item.Unusable == "") {
					t.Fatalf("%s: %+v", name, item)
				}
			}
		}
	})
}
