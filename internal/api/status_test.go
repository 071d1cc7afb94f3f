package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/internal/broker/faulttest"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/trials/servertest"
)

// TestStatusShowsTheBuffer checks that a server with a buffer says what the buffer keeps, except to whom only a tenant is shown.
func TestStatusShowsTheBuffer(t *testing.T) {
	t.Parallel()
	nats := faulttest.NewNATS(t, faulttest.Options{Empty: true})
	s := servertest.Start(t, servertest.Config{File: `
database: { url: %[1]q, schema: %[2]s }
buffer: { url: ` + fmt.Sprintf("%q", nats.URL) + `, replicas: 1, when: always }
targets: { ledger: { kind: forward, url: "%[3]s/%[4]s", idempotent: true, allow: [127.0.0.0/8] } }
sources: { shop: { provider: stripe, secrets: ["file:%[4]s/secret"], routes: [{ name: ledger, target: ledger }] } }
`, Secrets: map[string]string{"secret": "whsec_status"}})
	status := func(token string) (out control.Status) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Private.URL+"/api/v1/status", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK || json.Unmarshal(text, &out) != nil {
			t.Fatalf("%d %s, %v", response.StatusCode, text, err)
		}
		return out
	}
	if b := status(s.Token(t, "reader", "", "read-metadata")).Buffer; b == nil || b.When != "always" || !b.Connected || b.Active == nil || *b.Active || b.Waiting == nil || *b.Waiting != 0 || b.OldestAt != nil {
		t.Errorf("%+v", b)
	}
	if b := status(s.Token(t, "tenant", "acme", "read-metadata")).Buffer; b != nil {
		t.Errorf("a tenant sees %+v", b)
	}
}
