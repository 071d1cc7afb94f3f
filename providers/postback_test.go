package providers_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/fetch"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/scheme"
)

const (
	postbackClient = "the-client"
	postbackSecret = "the-client-secret"
)

// paypal replaces PayPal. It knows one event, byte for byte.
type paypal struct {
	fetcher *fetch.Fetcher
	host    string
	place   string // where it should be asked
	event   []byte
	answer  atomic.Pointer[string] // replaces the verdict if set
	status  atomic.Int64
	asked   atomic.Int64
}

// Ask sends a question for PayPal to the test's server, through the real fetcher.
func (p *paypal) Ask(q *scheme.Question) ([]byte, error) {
	if q.URL != "https://"+p.place+"/v1/notifications/verify-webhook-signature" || q.Grant.URL != "https://"+p.place+"/v1/oauth2/token" || !scheme.Allowed(q.URL, q.Hosts) {
		return nil, errors.New("another place is asked: " + q.URL)
	}
	here := *q
	here.URL = strings.Replace(q.URL, p.place, p.host, 1)
	here.Grant.URL = strings.Replace(q.Grant.URL, p.place, p.host, 1)
	here.Hosts = []string{p.host}
	return p.fetcher.Ask(&here)
}

func (p *paypal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id, secret, ok := r.BasicAuth(); r.URL.Path == "/v1/oauth2/token" && ok {
		if id != postbackClient || secret != postbackSecret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"scope":"all","access_token":"A21AA","token_type":"Bearer","app_id":"APP-1","expires_in":32400,"nonce":"n"}`)
		return
	}
	p.asked.Add(1)
	body, _ := io.ReadAll(r.Body)
	var q map[string]json.RawMessage
	event := slices.Concat([]byte(`,"webhook_event":`), p.event, []byte(`}`))
	verdict := "FAILURE"
	switch {
	case json.Unmarshal(body, &q) != nil || len(q) != 7 || r.Header.Get("Authorization") != "Bearer A21AA" || r.Header.Get("Content-Type") != "application/json":
		w.WriteHeader(http.StatusBadRequest)
		return
	case bytes.HasSuffix(body, event) && string(q["transmission_id"]) == `"071f7d20-1584-11e7-abf0-6b62a8a99ac4"` &&
		string(q["auth_algo"]) == `"SHA256withRSA"` && string(q["transmission_time"]) == `"2017-03-30T20:04:05Z"` &&
		len(q["transmission_sig"]) > 300 && bytes.HasPrefix(q["cert_url"], []byte(`"https://api.sandbox.paypal.com/`)) && len(q["webhook_id"]) > 2:
		verdict = "SUCCESS"
	}
	if status := p.status.Load(); status > 0 {
		w.WriteHeader(int(status))
	}
	if answer := p.answer.Load(); answer != nil {
		_, _ = io.WriteString(w, *answer)
		return
	}
	_, _ = io.WriteString(w, `{"verification_status":"`+verdict+`"}`)
}

// openPayPal returns a PayPal that sent the vector's event, and the provider bound to it with these
// settings in addition to the vector's.
func openPayPal(t *testing.T, v *providertest.Vector, settings map[string]string) (*paypal, *providers.Provider) {
	t.Helper()
	p := &paypal{place: "api-m.sandbox.paypal.com", event: v.Request().Body}
	server := httptest.NewTLSServer(p)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p.host = "example.com:" + port // the name of the test server's certificate
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	p.fetcher, err = fetch.New(fetch.Config{
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: roots, Timeout: time.Minute, AskTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	maps.Copy(all, v.Settings)
	for name, value := range settings {
		all[name] = []string{value}
	}
	bound, err := load(t, "paypal").Bind(providers.Binding{Settings: all, Fetcher: providertest.Keys(v.Keys), Asker: p})
	if err != nil {
		t.Fatal(err)
	}
	return p, bound
}

func sandbox() map[string]string {
	return map[string]string{"postback": "sandbox", "postback_client_id": postbackClient, "postback_client_secret": postbackSecret}
}

// collide changes the forged body until it has the checksum of the genuine one. The forged body
// must contain at least 40 spaces in a row, some of which become tabs. CRC32 is linear, so a system
// of equations over single bits determines which ones.
func collide(t *testing.T, genuine, forged []byte) []byte {
	t.Helper()
	out := bytes.Clone(forged)
	start := bytes.Index(out, bytes.Repeat([]byte(" "), 40))
	if start < 0 {
		t.Fatal("there is no room to forge in")
	}
	base := crc32.ChecksumIEEE(out)
	type row struct {
		effect uint32
		flips  uint64
	}
	var rows []row // each with a different highest bit
	reduce := func(r row) row {
		for _, known := range rows {
			if r.effect^known.effect < r.effect {
				r.effect ^= known.effect
				r.flips ^= known.flips
			}
		}
		return r
	}
	for i := range 40 {
		out[start+i] = '\t'
		r := reduce(row{crc32.ChecksumIEEE(out) ^ base, 1 << i})
		out[start+i] = ' '
		if r.effect != 0 {
			rows = append(rows, r)
		}
	}
	r := reduce(row{base ^ crc32.ChecksumIEEE(genuine), 0})
	if r.effect != 0 {
		t.Fatal("no collision with so few spaces")
	}
	for i := range 40 {
		if r.flips>>i&1 == 1 {
			out[start+i] = '\t'
		}
	}
	return out
}

func forgery(t *testing.T, genuine []byte) []byte {
	t.Helper()
	forged := bytes.Replace(genuine, []byte(`"id":"WH-`), []byte(`"id":`+strings.Repeat(" ", 40)+`"<W&X>-`), 1)
	forged = collide(t, genuine, forged)
	if bytes.Equal(genuine, forged) || crc32.ChecksumIEEE(genuine) != crc32.ChecksumIEEE(forged) || !json.Valid(forged) {
		t.Fatal("the forgery is none")
	}
	return forged
}

// A forged body of the same checksum passes the signature; only PayPal knows.
func TestPayPalPostback(t *testing.T) {
	t.Parallel()
	v := vector(t, "paypal", "valid-official-java")
	genuine := v.Request()
	forged := v.Request()
	forged.Body = forgery(t, genuine.Body)

	off, unasking := openPayPal(t, v, nil)
	for _, req := range []*providers.Request{genuine, forged} {
		if d, err := unasking.Verify(req, nil); err != nil || len(d.Items) != 1 {
			t.Errorf("without a postback: %v", err)
		}
	}
	if off.asked.Load() != 0 {
		t.Error("asked, and nobody wants it")
	}

	on, asking := openPayPal(t, v, sandbox())
	d, err := asking.Verify(genuine, nil)
	if err != nil || len(d.Items) != 1 || d.Items[0].EventID == "" {
		t.Fatalf("the genuine one: %v", err)
	}
	_, err = asking.Verify(forged, nil)
	refusal, ok := errors.AsType[*providers.Refusal](err)
	if !ok || refusal.Reason != providers.ReasonMismatch || !strings.Contains(refusal.Detail, "PayPal was asked") {
		t.Errorf("the forged one: %v", err)
	}
	if on.asked.Load() != 2 {
		t.Errorf("asked %d times", on.asked.Load())
	}
	// The event is asked about byte for byte: PayPal knows the other one now, with
	// its spaces and with what JSON may escape.
	on.event = forged.Body
	if _, err := asking.Verify(forged, nil); err != nil {
		t.Errorf("an event with spaces: %v", err)
	}
	if _, err := asking.Verify(genuine, nil); err == nil {
		t.Error("an event that PayPal does not know")
	}
	// What the signature refuses is not asked about.
	early := *genuine
	early.ReceivedAt = early.ReceivedAt.Add(-time.Hour)
	other := *genuine
	other.Body = append(bytes.Clone(genuine.Body), ' ')
	for _, req := range []*providers.Request{&early, &other} {
		if _, err := asking.Verify(req, nil); err == nil {
			t.Error("accepted")
		}
	}
	if on.asked.Load() != 4 {
		t.Error("asked about what the signature refuses")
	}
}

// A diagnosis asks once, and then searches without asking.
func TestPayPalPostbackDiagnosis(t *testing.T) {
	t.Parallel()
	v := vector(t, "paypal", "valid-official-java")
	p, asking := openPayPal(t, v, sandbox())
	forged := v.Request()
	forged.Body = forgery(t, forged.Body)
	d := asking.Diagnose(forged, nil, providers.DiagnoseOptions{})
	if d.Reason != providers.ReasonMismatch || len(d.Findings) != 1 || d.Findings[0].Mistake != providers.MistakeBody || !strings.Contains(d.Findings[0].Text, "did not send this") {
		t.Errorf("%+v", d)
	}
	if p.asked.Load() != 1 {
		t.Errorf("asked %d times", p.asked.Load())
	}
	line := v.Request()
	line.Body = append(line.Body, '\n')
	d = asking.Diagnose(line, nil, providers.DiagnoseOptions{})
	if d.Reason != providers.ReasonMismatch || len(d.Findings) == 0 || d.Findings[0].Mistake != providers.MistakeBody {
		t.Errorf("%+v", d)
	}
	early := v.Request()
	early.ReceivedAt = early.ReceivedAt.Add(-time.Hour)
	if d = asking.Diagnose(early, nil, providers.DiagnoseOptions{}); len(d.Findings) != 1 || d.Findings[0].Mistake != providers.MistakeEarly {
		t.Errorf("%+v", d)
	}
	if p.asked.Load() != 1 {
		t.Errorf("asked %d times", p.asked.Load())
	}
}

// TestPayPalPostbackFaults checks that every answer that is not a verdict is a fault, so that the
// sender retries.
func TestPayPalPostbackFaults(t *testing.T) {
	t.Parallel()
	v := vector(t, "paypal", "valid-official-java")
	fault := func(name string, p *providers.Provider) {
		t.Helper()
		_, err := p.Verify(v.Request(), nil)
		if _, refused := errors.AsType[*providers.Refusal](err); err == nil || refused {
			t.Errorf("%s: %v", name, err)
			return
		}
		for _, secret := range []string{postbackClient, postbackSecret, "A21AA", "WH-2MW4820926242972J"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %s is in %v", name, secret, err)
			}
		}
	}
	p, asking := openPayPal(t, v, sandbox())
	for _, answer := range []string{"", "{}", "null", "<html>", `"SUCCESS"`, `{"verification_status":"success"}`, `{"verification_status":["SUCCESS"]}`, `{"verification_status":"SUCCESS"} {`} {
		p.answer.Store(&answer)
		fault("answer "+answer, asking)
	}
	p.answer.Store(nil)
	for _, status := range []int{201, 302, 400, 403, 404, 422, 429, 500, 503} {
		p.status.Store(int64(status))
		fault(http.StatusText(status), asking)
	}
	p.status.Store(401)
	fault("the token is not accepted", asking)
	wrong := sandbox()
	wrong["postback_client_secret"] = "another"
	_, asking = openPayPal(t, v, wrong)
	fault("another secret", asking)
	live := sandbox()
	live["postback"] = "live"
	_, asking = openPayPal(t, v, live)
	fault("another place", asking)

	settings := map[string][]string{"postback": {"live"}, "postback_client_id": {"a"}, "postback_client_secret": {"b"}}
	maps.Copy(settings, v.Settings)
	alone, err := load(t, "paypal").Bind(providers.Binding{Settings: settings, Fetcher: providertest.Keys(v.Keys)})
	if err != nil {
		t.Fatal(err)
	}
	fault("nobody to ask", alone)
}

func TestPayPalPostbackSettings(t *testing.T) {
	t.Parallel()
	p := load(t, "paypal")
	for name, c := range map[string]struct {
		settings map[string][]string
		want     string
	}{
		"another place": {map[string][]string{"postback": {"true"}, "postback_client_id": {"the-id"}, "postback_client_secret": {"the-key"}}, "live or sandbox"},
		"two places":    {map[string][]string{"postback": {"live", "sandbox"}, "postback_client_id": {"the-id"}, "postback_client_secret": {"the-key"}}, "live or sandbox"},
		"no secret":     {map[string][]string{"postback": {"live"}, "postback_client_id": {"the-id"}}, "postback_client_secret"},
		"no id":         {map[string][]string{"postback": {"live"}, "postback_client_secret": {"the-key"}}, "postback_client_id"},
		"two ids":       {map[string][]string{"postback": {"live"}, "postback_client_id": {"the-id", "b"}, "postback_client_secret": {"the-key"}}, "one postback_client_id"},
		"unused":        {map[string][]string{"postback_client_secret": {"the-key"}}, "postback is missing"},
	} {
		c.settings["webhook_id"] = []string{"1"}
		err := p.CheckSettings(c.settings)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "the-") {
			t.Errorf("%s: a secret is in %v", name, err)
		}
	}
}
