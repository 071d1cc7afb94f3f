package providertest_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// wrong is a verifier with one mistake.
type wrong struct {
	*providers.Provider
	verify func(p *providers.Provider, req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error)
	check  func(p *providers.Provider, secrets []providers.Secret) error
}

func (w wrong) Verify(req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error) {
	if w.verify == nil {
		return w.Provider.Verify(req, secrets)
	}
	return w.verify(w.Provider, req, secrets)
}

func (w wrong) CheckSecrets(secrets []providers.Secret) error {
	if w.check == nil {
		return w.Provider.CheckSecrets(secrets)
	}
	return w.check(w.Provider, secrets)
}

// byHand verifies GitHub's scheme with the given comparison.
func byHand(same func(want, got string) bool, body func([]byte) []byte) func(*providers.Provider, *providers.Request, []providers.Secret) (*providers.Delivery, error) {
	return func(_ *providers.Provider, req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error) {
		got, ok := strings.CutPrefix(req.Header.Get("X-Hub-Signature-256"), "sha256=")
		if !ok {
			return nil, &providers.Refusal{Reason: providers.ReasonUnsigned}
		}
		for _, secret := range secrets {
			mac := hmac.New(sha256.New, secret.Value)
			mac.Write(body(req.Body))
			if same(hex.EncodeToString(mac.Sum(nil)), got) {
				return &providers.Delivery{Secret: secret.Name}, nil
			}
		}
		return nil, &providers.Refusal{Reason: providers.ReasonMismatch}
	}
}

func asItIs(b []byte) []byte { return b }

// The suite must find out each of these.
var museum = map[string]struct {
	provider string
	exhibit  wrong
}{
	"ignores the tolerance": {"stripe", wrong{verify: func(p *providers.Provider, req *providers.Request, s []providers.Secret) (*providers.Delivery, error) {
		d, err := p.Verify(req, s)
		var refusal *providers.Refusal
		if errors.As(err, &refusal) && (refusal.Reason == providers.ReasonStale || refusal.Reason == providers.ReasonEarly) {
			return &providers.Delivery{Secret: "current"}, nil
		}
		return d, err
	}}},
	"checks only the past": {"slack", wrong{verify: func(p *providers.Provider, req *providers.Request, s []providers.Secret) (*providers.Delivery, error) {
		d, err := p.Verify(req, s)
		var refusal *providers.Refusal
		if errors.As(err, &refusal) && refusal.Reason == providers.ReasonEarly {
			return &providers.Delivery{Secret: "current"}, nil
		}
		return d, err
	}}},
	"verifies re-serialised JSON": {"github", wrong{verify: byHand(func(want, got string) bool { return want == got }, func(b []byte) []byte {
		var v any
		if json.Unmarshal(b, &v) != nil {
			return b
		}
		out, err := json.Marshal(v)
		if err != nil {
			return b
		}
		return out
	})}},
	"trims the body":                  {"github", wrong{verify: byHand(func(want, got string) bool { return want == got }, bytes.TrimSpace)}},
	"takes any prefix of a signature": {"github", wrong{verify: byHand(strings.HasPrefix, asItIs)}},
	"takes an empty secret": {"github", wrong{check: func(p *providers.Provider, s []providers.Secret) error {
		var out []providers.Secret
		for _, secret := range s {
			if len(secret.Value) > 0 {
				out = append(out, secret)
			}
		}
		return p.CheckSecrets(out)
	}}},
	"takes no secret for no check": {"github", wrong{verify: func(p *providers.Provider, req *providers.Request, s []providers.Secret) (*providers.Delivery, error) {
		if len(s) == 0 {
			return &providers.Delivery{}, nil
		}
		return p.Verify(req, s)
	}}},
	"tries only the first secret": {"standard-webhooks", wrong{verify: func(p *providers.Provider, req *providers.Request, s []providers.Secret) (*providers.Delivery, error) {
		return p.Verify(req, s[:min(1, len(s))])
	}}},
	"takes the first of two signature headers": {"shopify", wrong{verify: func(p *providers.Provider, req *providers.Request, s []providers.Secret) (*providers.Delivery, error) {
		for name, values := range req.Header {
			req.Header[name] = values[:1]
		}
		return p.Verify(req, s)
	}}},
	"ignores the end of a secret": {"github", wrong{verify: func(p *providers.Provider, req *providers.Request, s []providers.Secret) (*providers.Delivery, error) {
		lasting := make([]providers.Secret, len(s))
		for i := range s {
			lasting[i] = providers.Secret{Name: s[i].Name, Value: s[i].Value}
		}
		return p.Verify(req, lasting)
	}}},
	"tells the secret": {"token", wrong{verify: func(p *providers.Provider, req *providers.Request, s []providers.Secret) (*providers.Delivery, error) {
		d, err := p.Verify(req, s)
		if err != nil && len(s) > 0 {
			err = &providers.Refusal{Reason: providers.ReasonMismatch, Detail: "expected " + string(s[0].Value)}
		}
		return d, err
	}}},
	"checks the timestamp's header but not its content": {"standard-webhooks", wrong{verify: func(p *providers.Provider, req *providers.Request, s []providers.Secret) (*providers.Delivery, error) {
		d, err := p.Verify(req, s)
		var refusal *providers.Refusal
		if errors.As(err, &refusal) && refusal.Reason == providers.ReasonMalformed {
			return &providers.Delivery{Secret: "current"}, nil
		}
		return d, err
	}}},
}

func TestMuseum(t *testing.T) {
	t.Parallel()
	loaded := catalogtest.Load(t)
	for name, piece := range museum {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exhibit := piece.exhibit
			exhibit.Provider = loaded[piece.provider]
			vectors, err := providertest.Vectors(testdata.Files, piece.provider)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for i := range vectors {
				if vectors[i].Spec != "" {
					continue
				}
				for _, f := range providertest.Check(exhibit, &vectors[i]) {
					if waivers[piece.provider+"/"+f.Case+"/"+f.Check] == "" {
						found++
					}
				}
			}
			if found == 0 {
				t.Error("the suite finds nothing wrong with it")
			}
		})
	}
}
