package providers_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// The name of a credential is in the key, and which of its secrets was used is not.
func TestKeyHasTheCredentialNotTheSecret(t *testing.T) {
	t.Parallel()
	cat := catalogtest.Load(t)
	p := cat["operation"]
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	secrets := []providers.Secret{
		{Name: "env:NEW", Credential: "planner", Value: []byte("new")},
		{Name: "env:OLD", Credential: "planner", Value: []byte("old"), NotAfter: at.Add(time.Hour)},
		{Name: "planner", Value: []byte("named as the credential is")}, // as it was before credentials were written apart
		{Name: "clerk", Value: []byte("another's")},
	}
	if err := p.CheckSecrets(secrets); err != nil {
		t.Fatal(err)
	}
	call := func(secret string, at time.Time) (*providers.Delivery, error) {
		return p.Verify(&providers.Request{Method: http.MethodPost, Body: []byte("{}"), ReceivedAt: at, Header: http.Header{
			"Authorization": {"Bearer " + secret}, "Oncegate-Operation": {"charge"}, "Idempotency-Key": {"run-42/step-3"},
		}}, secrets)
	}
	for secret, want := range map[string][3]string{
		"new":                        {"env:NEW", "planner", "planner:charge:run-42/step-3"},
		"old":                        {"env:OLD", "planner", "planner:charge:run-42/step-3"},
		"named as the credential is": {"planner", "planner", "planner:charge:run-42/step-3"},
		"another's":                  {"clerk", "clerk", "clerk:charge:run-42/step-3"},
	} {
		d, err := call(secret, at)
		if err != nil {
			t.Errorf("%s: %v", secret, err)
			continue
		}
		if got := [3]string{d.Secret, d.Credential, d.Items[0].EventID}; got != want {
			t.Errorf("%s: %q, want %q", secret, got, want)
		}
	}
	if _, err := call("old", at.Add(2*time.Hour)); err == nil {
		t.Error("a secret that has ended is accepted")
	}
}

// Every secret of every credential is tried, and what would make two callers one is refused.
func TestSecretsOfManyCredentials(t *testing.T) {
	t.Parallel()
	cat := catalogtest.Load(t)
	p := cat["operation"]
	many := make([]providers.Secret, providers.MaxCredentialSecrets)
	for i := range many {
		many[i] = providers.Secret{Name: fmt.Sprintf("env:S%d", i), Credential: fmt.Sprintf("c%d", i/4), Value: fmt.Appendf(nil, "secret %d", i)}
	}
	if err := p.CheckSecrets(many); err != nil {
		t.Fatal(err)
	}
	d, err := p.Verify(&providers.Request{Method: http.MethodPost, Body: []byte("{}"), Header: http.Header{
		"Authorization": {"Bearer secret 255"}, "Oncegate-Operation": {"charge"}, "Idempotency-Key": {"run-42/step-3"},
	}}, many)
	if err != nil || d.Credential != "c63" {
		t.Errorf("the last secret: %v, %v", d, err)
	}
	for name, c := range map[string]struct {
		secrets []providers.Secret
		want    string
	}{
		"too many": {append(slices.Clip(many), providers.Secret{Name: "one more", Credential: "x", Value: []byte("y")}), "257 secrets, at most 256 are tried"},
		"shared": {[]providers.Secret{{Name: "env:A", Credential: "planner", Value: []byte("one value")}, {Name: "env:B", Credential: "mailer", Value: []byte("one value")}},
			"credentials planner and mailer have the same secret (env:A, env:B)"},
		"shared without credentials": {[]providers.Secret{{Name: "planner", Value: []byte("one value")}, {Name: "mailer", Value: []byte("one value")}},
			"credentials planner and mailer have the same secret"},
		"a name": {[]providers.Secret{{Name: "env:A", Credential: "the:planner", Value: []byte("one value")}}, "names a credential"},
	} {
		if err := p.CheckSecrets(c.secrets); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "one value") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	of := make([]providers.Secret, providers.MaxSecrets+1)
	for i := range of {
		of[i] = providers.Secret{Name: fmt.Sprintf("env:S%d", i), Credential: "planner", Value: fmt.Appendf(nil, "secret %d", i)}
	}
	if err := p.CheckSecrets(of); err == nil || !strings.Contains(err.Error(), "credential planner has more than 8 secrets") {
		t.Errorf("too many of one credential: %v", err)
	}
	if err := p.CheckSecrets(append(of[:2:2], providers.Secret{Name: "env:S0", Credential: "planner", Value: of[0].Value})); err != nil {
		t.Errorf("one value twice in one credential is harmless, and got %v", err)
	}
}
