package servertest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Post sends JSON to an address and returns the answer. headers are names and values in turn.
func (s *Server) Post(t *testing.T, address, body string, headers ...string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := (&http.Client{Timeout: Limit}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	return response.StatusCode, string(answer)
}

// Deliver sends a body to a source of the provider stripe, signed now with a secret, and returns the answer.
func (s *Server) Deliver(t *testing.T, source, secret, body string, headers ...string) (status int, text string) {
	t.Helper()
	headers = append(headers, "Stripe-Signature", rig.StripeSignature(secret, time.Now(), []byte(body)))
	return s.Post(t, s.Public.URL+"/in/"+source, body, headers...)
}
