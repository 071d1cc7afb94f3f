package docs_test

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

var (
	reference  = regexp.MustCompile(`env: ?([A-Z0-9_]+)`)
	targetName = regexp.MustCompile(`target: ([a-z]+)`)
	secretFile = regexp.MustCompile(`/run/secrets/[a-z_]+`)
)

// completed turns a part of a configuration into a complete one, and returns the environment for
// it.
func completed(t *testing.T, content string) (string, []string) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("whsec_old_value"), 0o600); err != nil {
		t.Fatal(err)
	}
	content = secretFile.ReplaceAllString(content, secret)
	if !strings.Contains(content, "sources:") {
		content += "sources: { s: { provider: stripe, secrets: [env:STRIPE_SECRET] } }\n"
	}
	if !strings.Contains(content, "targets:") {
		targets := map[string]bool{}
		for _, m := range targetName.FindAllStringSubmatch(content, -1) {
			targets[m[1]] = true
		}
		content += "targets:\n"
		for name := range targets {
			content += "  " + name + ": { kind: noop }\n"
		}
	}
	environ := []string{"DATABASE_URL=postgres://oncegate:secret@127.0.0.1:1/oncegate"}
	for _, m := range reference.FindAllStringSubmatch(content, -1) {
		if m[1] != "DATABASE_URL" {
			value := sha256.Sum256([]byte(m[1])) // credentials must have different secrets
			environ = append(environ, m[1]+"="+cmp.Or(formed(t, m[1]), "whsec_"+base64.StdEncoding.EncodeToString(value[:])))
		}
	}
	return content, environ
}

// formed returns the value of a variable that needs a special form, or "" for any other variable.
func formed(t *testing.T, name string) string {
	t.Helper()
	encoded := func(der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	switch name {
	case "DKIM_KEY":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded(x509.MarshalPKCS8PrivateKey(key))}))
	case "SENDGRID_PUBLIC_KEY":
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(encoded(x509.MarshalPKIXPublicKey(&key.PublicKey)))
	case "POSTMARK_CREDENTIAL":
		return "user:password"
	}
	return ""
}

// Every configuration that a page shows passes `oncegate config check`.
func TestConfigurationsAreTaken(t *testing.T) {
	t.Parallel()
	found := 0
	for path, content := range pages(t) {
		for _, b := range blocksOf(content) {
			if b.language != "yaml" {
				continue
			}
			found++
			text, environ := completed(t, b.text)
			file := filepath.Join(t.TempDir(), "oncegate.yml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, problems bytes.Buffer
			if code := cli.Main([]string{"config", "check", "--config", file}, environ, strings.NewReader(""), &out, &problems); code != 0 {
				t.Errorf("%s:%d: exit code %d\n%s\n%s", path, b.line, code, problems.String(), text)
			}
		}
	}
	if found < 12 {
		t.Errorf("only %d configurations were found", found)
	}
}

// A mistake in a part of a configuration is found even though the rest is completed.
func TestAWrongConfigurationIsNotTaken(t *testing.T) {
	t.Parallel()
	text, environ := completed(t, "targets: { a: { kind: forward, url: \"https://a.example\" } }\n")
	file := filepath.Join(t.TempDir(), "oncegate.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	if code := cli.Main([]string{"config", "check", "--config", file}, environ, strings.NewReader(""), &out, &problems); code != 2 || !strings.Contains(problems.String(), "idempotent") {
		t.Errorf("exit code %d, %s", code, problems.String())
	}
}

// The custom provider of the guide has ten lines including its source, inherits nothing that it
// does not mention, and verifies what such a sender signs.
func TestCustomProviderOfTheGuide(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	for _, b := range blocksOf(pages(t)["docs/guides/first-source.md"]) {
		if !strings.Contains(b.text, "extends:") {
			continue
		}
		if lines := strings.Count(b.text, "\n"); lines > 10 {
			t.Errorf("it has %d lines", lines)
		}
		content := b.text + "targets: { billing: { kind: forward, url: \"https://billing.example/\", idempotent: true } }\n"
		cfg, err := config.Load(config.Options{
			File: "guide.yml", Content: []byte(content), Catalog: all,
			Environ: []string{"DATABASE_URL=postgres://u:p@db.example/oncegate", "ACME_SECRET=s3cret-value"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(cfg.Warnings) > 0 {
			t.Errorf("warnings %q", cfg.Warnings)
		}
		const body = `{"event_id":"e-1","kind":"order.paid"}`
		mac := hmac.New(sha256.New, []byte("s3cret-value"))
		mac.Write([]byte(body))
		req := &providers.Request{
			Method: http.MethodPost, Body: []byte(body), ReceivedAt: time.Unix(1_760_000_000, 0),
			Header: http.Header{"X-Acme-Signature": {hex.EncodeToString(mac.Sum(nil))}},
		}
		source := cfg.Sources[0]
		delivery, err := source.Provider.Verify(req, source.Keys())
		if err != nil {
			t.Fatal(err)
		}
		if item := delivery.Items[0]; item.EventID != "e-1" || item.Type != "order.paid" {
			t.Errorf("event %+v", item)
		}
		return
	}
	t.Error("the guide shows no custom provider")
}
