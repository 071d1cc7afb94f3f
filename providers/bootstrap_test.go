package providers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

// TestSecretInTheBody checks that a secret is read from a short unsigned request, and that a
// delivery that merely contains the same words remains a delivery.
func TestSecretInTheBody(t *testing.T) {
	t.Parallel()
	p, err := providers.Parse("own", []byte(good+`
handshakes:
  - name: opening
    verify: bootstrap
    token: { json: key }
    match: [{ header: X-Signature, absent: true }, { json: key }]
    respond: { empty: true }
`))
	if err != nil {
		t.Fatal(err)
	}
	request := func(body, signature string) *providers.Request {
		req := &providers.Request{Method: http.MethodPost, URL: "https://hooks.example/in/own", Header: http.Header{}, Body: []byte(body)}
		if signature != "" {
			req.Header.Set("X-Signature", signature)
		}
		return req
	}
	secrets := []providers.Secret{{Name: "live", Value: []byte("a secret")}}
	long := strings.Repeat("x", 5000)

	reply, ok, err := p.Handshake(request(`{"key":"arriving"}`, ""), secrets)
	if err != nil || !ok || reply.Status != http.StatusOK || reply.Arrived == nil || string(reply.Arrived.Value) != "arriving" {
		t.Errorf("%+v, %t, %v", reply, ok, err)
	}
	if _, ok, err := p.Handshake(request(`{"key":"arriving","pad":"`+long+`"}`, ""), secrets); err == nil || !ok {
		t.Errorf("a long one without a signature gives %t, %v", ok, err)
	}
	if _, ok, err := p.Handshake(request(`{"key":"a word","pad":"`+long+`"}`, "00"), secrets); err != nil || ok {
		t.Errorf("a delivery is taken for a handshake: %t, %v", ok, err)
	}
}
