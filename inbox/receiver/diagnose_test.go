package receiver_test

import (
	"strings"
	"testing"
)

// The diagnosis of a mismatch is the store's to ask for; the answer is the same
// for every mistake and tells none.
func TestMismatchesCanBeDiagnosed(t *testing.T) {
	t.Parallel()
	const body = `{"id":"evt_1","type":"invoice.paid"}`
	s := open(t, "stripe", "whsec_0123456789abcdef0123\n")
	newline := s.send(s.request(t, "whsec_0123456789abcdef0123", body))
	wrong := s.send(s.request(t, "whsec_another_secret_0123", body))
	if newline.Code != 401 || newline.Body.Len() != 0 || wrong.Code != newline.Code || wrong.Body.Len() != 0 {
		t.Errorf("answered %d %q and %d %q", newline.Code, newline.Body, wrong.Code, wrong.Body)
	}
	refusals := s.refusals.refusals()
	for i, want := range []string{"the secret ends in a line break", "another secret"} {
		finding := []string{"secret_written", "unknown"}[i]
		if refusals[i].Diagnose == nil {
			t.Fatalf("refusal %d cannot be diagnosed", i)
		}
		if kind, got := refusals[i].Diagnose(refusals[i].Body); kind != finding || !strings.Contains(got, want) || strings.Contains(got, "0123456789") {
			t.Errorf("refusal %d diagnosed as %s %q, want %s %q", i, kind, got, finding, want)
		}
	}
	stale := s.request(t, "whsec_0123456789abcdef0123\n", body)
	stale.Header.Set("Stripe-Signature", strings.Replace(stale.Header.Get("Stripe-Signature"), "v1=", "v2=", 1))
	s.send(stale)
	if kept := s.refusals.refusals(); kept[2].Diagnose != nil {
		t.Errorf("a refusal that is not kept whole can be diagnosed: %+v", kept[2])
	}
}
