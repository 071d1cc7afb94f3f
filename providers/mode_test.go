package providers_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

const twoModes = `
docs: https://example.com/docs
verify:
  family: hmac
  signature: { headers: [X-Sig], schemes: [{ algorithm: hmac-sha1, encoding: hex }] }
  signed: [body]
modes:
  - name: timed
    when: [{ header: X-Time }]
    verify:
      family: hmac
      signature: { headers: [X-Sig], schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
      signed: [timestamp, body]
      timestamp: { from: header, header: X-Time }
identity: { candidates: [{ json: id }] }
`

// A request is verified in the one way that its headers name.
func TestModes(t *testing.T) {
	t.Parallel()
	p := custom(t, twoModes)
	secrets := []providers.Secret{{Name: "s", Value: []byte("secret of ours")}}
	sign := func(timed bool) *providers.Request {
		req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(`{"id":"1"}`), ReceivedAt: noon}
		if timed {
			req.Header.Set("X-Time", "1")
		}
		if err := p.Sign(req, secrets[0], ""); err != nil {
			t.Fatal(err)
		}
		return req
	}
	for _, timed := range []bool{false, true} {
		d, err := p.Verify(sign(timed), secrets)
		if err != nil || d.SignedAt.IsZero() == timed {
			t.Errorf("timed %v: %+v, %v", timed, d, err)
		}
	}
	stripped := sign(true)
	stripped.Header.Del("X-Time")
	if _, err := p.Verify(stripped, secrets); err == nil {
		t.Error("the signature of one mode is taken in the other")
	}
	added := sign(false)
	added.Header.Set("X-Time", "1777896000")
	if _, err := p.Verify(added, secrets); err == nil {
		t.Error("the signature of the untimed mode is taken in the timed one")
	}
}

// A secret that arrives is answered and shown, and verifies nothing.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	p := load(t, "asana")
	ours := []providers.Secret{{Name: "s", Value: []byte("the secret we have")}}
	hello := &providers.Request{Method: http.MethodPost, Header: http.Header{"X-Hook-Secret": {"planted"}}, Body: []byte("{}"), ReceivedAt: noon}
	reply, ok, err := p.Handshake(hello, ours)
	if err != nil || !ok || reply.Status != 200 || reply.Header.Get("X-Hook-Secret") != "planted" || reply.Arrived == nil || string(reply.Arrived.Value) != "planted" {
		t.Fatalf("%+v %v %v", reply, ok, err)
	}
	event := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(`{"events":[]}`), ReceivedAt: noon}
	if err := p.Sign(event, *reply.Arrived, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Verify(event, ours); err == nil {
		t.Error("a planted secret verifies")
	}
	if reply, _, _ := p.Handshake(hello, []providers.Secret{*reply.Arrived}); reply.Arrived != nil {
		t.Error("a known secret is shown as new")
	}
	event.Header.Set("X-Hook-Secret", "planted")
	if _, ok, _ := p.Handshake(event, ours); ok {
		t.Error("a delivery is taken for a handshake")
	}
	for _, value := range []string{"a\r\nb", "\x00", "é"} {
		hello.Header["X-Hook-Secret"] = []string{value}
		if reply, ok, err := p.Handshake(hello, ours); ok && err == nil {
			t.Errorf("%q is answered: %+v", value, reply)
		}
	}
	notion := load(t, "notion")
	token := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(`{"verification_token":"secret_x"}`), ReceivedAt: noon}
	if _, ok, err := notion.Handshake(token, ours); !ok || err == nil {
		t.Error("an unsigned token is answered")
	}
	if err := notion.Sign(token, providers.Secret{Value: []byte("secret_x")}, ""); err != nil {
		t.Fatal(err)
	}
	if reply, ok, err := notion.Handshake(token, ours); err != nil || !ok || reply.Arrived == nil {
		t.Errorf("%+v %v %v", reply, ok, err)
	}
}

// A token of a handshake is no key of deliveries, and is refused as asked for.
func TestReservedSecret(t *testing.T) {
	t.Parallel()
	p := load(t, "meta")
	both := []providers.Secret{{Name: "app", Value: []byte("app secret")}, {Name: "verify_token", Value: []byte("in every log")}}
	if err := p.CheckSecrets(both); err != nil {
		t.Fatal(err)
	}
	if err := p.CheckSecrets(both[1:]); err == nil {
		t.Error("a verify token alone is enough")
	}
	req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(`{"entry":[]}`), ReceivedAt: noon}
	if err := p.Sign(req, both[1], ""); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Verify(req, both); err == nil {
		t.Error("the verify token signs deliveries")
	}
	ask := &providers.Request{
		Method: http.MethodGet, Header: http.Header{}, ReceivedAt: noon,
		URL: "https://x.example/in/meta?hub.mode=subscribe&hub.challenge=1&hub.verify_token=app%20secret",
	}
	var refusal *providers.Refusal
	if _, _, err := p.Handshake(ask, both); !errors.As(err, &refusal) || refusal.Reply == nil || refusal.Reply.Status != 403 {
		t.Errorf("the app secret as verify token: %v", err)
	}
}

// TestMailgunToken checks that one token of Mailgun's identifies one event, whatever else the body
// contains.
func TestMailgunToken(t *testing.T) {
	t.Parallel()
	p := load(t, "mailgun")
	body := `{"signature":{"timestamp":"1","token":"tok","signature":"00"},"event-data":{"id":"a","event":"delivered"}}`
	one := accept(t, p, body)[0]
	two := accept(t, p, `{"signature":{"timestamp":"1","token":"tok","signature":"00"},"event-data":{"id":"FORGED","event":"failed"}}`)[0]
	if one.EventID != "tok" || two.EventID != one.EventID {
		t.Errorf("%+v %+v", one, two)
	}
	if p.IDUnsigned() {
		t.Error("the token is signed")
	}
}
