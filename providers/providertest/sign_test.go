package providertest_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// theirs lists the providers whose requests only the sender can make, and why.
var theirs = map[string]string{
	"adobe-io-events":      "the keys are Adobe's, fetched from its host",
	"amazon-sns":           "the certificate is Amazon's, fetched from its host",
	"generic-ip-allowlist": "there is nothing to sign: the address counts",
	"generic-jwt":          "the keys are those of the sender's key set",
	"generic-mtls":         "there is nothing to sign: the connection counts",
	"google-pubsub":        "the keys are Google's, fetched from its host",
	"paddle-classic":       "the private key is Paddle's",
	"pandadoc":             "the signature is in the address, and only PandaDoc puts it there",
	"paypal":               "the certificate is PayPal's, fetched from its host",
	"plaid":                "the keys are Plaid's, fetched from its host",
}

// Every example of the catalogue can be signed in every mode, and what was signed
// is accepted with an id, where anybody but the provider can sign. Where the
// provider signs with a private key, the pair is made here.
func TestExamples(t *testing.T) {
	t.Parallel()
	loaded := catalogtest.Load(t)
	for name, p := range loaded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vectors, err := providertest.Vectors(testdata.Files, name)
			if err != nil {
				t.Fatal(err)
			}
			valid := slices.ContainsFunc(vectors, func(v providertest.Vector) bool { return v.Valid && v.Kind != "handshake" })
			for _, mode := range p.Modes() {
				t.Run(mode, func(t *testing.T) {
					signed, tried := 0, ""
					for i := range vectors {
						v := &vectors[i]
						if v.Spec != "" || valid && !v.Valid || v.Kind == "handshake" {
							continue
						}
						bound, err := v.Bind(p)
						if err != nil {
							t.Fatal(err)
						}
						private, public, ok := pair(t, p, v)
						if !ok {
							continue
						}
						if tried = example(t, bound, v, mode, private, public); tried == "" {
							signed++
						}
					}
					if signed == 0 && theirs[name] == "" {
						t.Errorf("nothing was signed: %s", tried)
					}
					if signed > 0 && theirs[name] != "" {
						t.Errorf("can be signed after all: strike it from theirs (%s)", theirs[name])
					}
				})
			}
		})
	}
}

// pair is what signs and what verifies: a vector's secret, or a pair of keys made
// for the provider's algorithm.
func pair(t *testing.T, p *providers.Provider, v *providertest.Vector) (private providers.Secret, public []providers.Secret, ok bool) {
	t.Helper()
	if p.Spec().Verify.Family != "signature" {
		public = v.Secrets()
		if len(public) > 0 {
			private = public[0]
		}
		if v.SignSecret != "" {
			private.Value = []byte(v.SignSecret)
		}
		return private, public, !strings.HasPrefix(string(private.Value), "whpk_") && !strings.Contains(string(private.Value), "PUBLIC KEY")
	}
	s := &p.Spec().Verify.Signature.Schemes[0]
	var key, open any
	var err error
	switch s.Algorithm {
	case "ed25519":
		open, key, err = ed25519.GenerateKey(rand.Reader)
	case "ecdsa-p256-sha256":
		var pair *ecdsa.PrivateKey
		if pair, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err == nil {
			key, open = pair, pair.Public()
		}
	default:
		var pair *rsa.PrivateKey
		if pair, err = rsa.GenerateKey(rand.Reader, 2048); err == nil {
			key, open = pair, pair.Public()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := x509.MarshalPKIXPublicKey(open)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	switch s.Key {
	case "pem":
		text = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: plain}))
	case "spki":
		text = base64.StdEncoding.EncodeToString(plain)
	case "hex":
		raw, _ := open.(ed25519.PublicKey)
		text = hex.EncodeToString(raw)
	case "base64":
		raw, _ := open.(ed25519.PublicKey)
		text = base64.StdEncoding.EncodeToString(raw)
	default:
		t.Fatalf("a key written as %s cannot be made here", s.Key)
	}
	id := "" // of the key, if the request names it
	if p.Spec().Verify.Key.Select == "header" {
		name, _, _ := strings.Cut(v.Secret, "=")
		id = name + "="
	}
	private = providers.Secret{Name: "pair", Value: append([]byte(id), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: sealed})...)}
	return private, []providers.Secret{{Name: "pair", Value: []byte(id + text)}}, true
}

// example signs and verifies the provider's example; the result is why it could
// not be signed, where only the provider can.
func example(t *testing.T, p *providers.Provider, v *providertest.Vector, mode string, private providers.Secret, public []providers.Secret) string {
	t.Helper()
	req, ok := providertest.Example(p, "evt_1", v.Request().ReceivedAt)
	if !ok {
		t.Error("has no example")
		return ""
	}
	req.URL, _, _ = strings.Cut(v.URL, "?") // the query belongs to the vector's own body
	if mode == "basic" && !strings.Contains(string(private.Value), ":") {
		private.Value = append([]byte("user:"), private.Value...)
		public = []providers.Secret{private}
	}
	if err := p.SignAs(mode, req, private, "evt_1"); err != nil {
		if !providertest.OnlyTheirs(err) {
			t.Error(err)
		}
		return err.Error()
	}
	d, err := p.Verify(req, public)
	if err != nil {
		t.Errorf("%s: the example: %v", v.Case, err)
		return ""
	}
	if len(d.Items) != 1 || d.Items[0].Unusable != "" || d.Items[0].Type == "" {
		t.Errorf("the example gives %+v", d.Items)
		return ""
	}
	if d.Secret != "" && len(public) == 1 && d.Secret != public[0].Name && p.Spec().Verify.Family != "operation" {
		t.Errorf("matched %q", d.Secret)
	}
	identity := &p.Spec().Identity
	if identity.Mode == "id" && len(identity.Hash) == 0 && (len(identity.Candidates) == 0 || identity.Candidates[0].JSON == "" || strings.Contains(p.Spec().Example.Body, "{{id}}")) && !strings.Contains(d.Items[0].EventID, "evt_1") {
		t.Errorf("the example gives id %s", d.Items[0].EventID)
	}
	return ""
}
