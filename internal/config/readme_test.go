package config_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
)

// Every configuration that README shows loads; what is only a part of one is made whole first.
func TestExamplesOfTheReadmeLoad(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("whsec_old_value"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, example := range examples.FindAllStringSubmatch(readme(t), -1) {
		content := regexp.MustCompile(`file: /run/secrets/[a-z_]+`).ReplaceAllString(example[1], "file: "+secret)
		if strings.HasPrefix(content, "    routes:") {
			content = "sources:\n  shop:\n    provider: stripe\n    secrets: [env:STRIPE_SECRET]\n" + content
		}
		if !strings.Contains(content, "sources:") {
			content += "sources: { s: { provider: stripe, secrets: [env:STRIPE_SECRET] } }\n"
		}
		if !strings.Contains(content, "targets:") {
			targets := map[string]bool{}
			for _, m := range regexp.MustCompile(`target: ([a-z]+)`).FindAllStringSubmatch(content, -1) {
				targets[m[1]] = true
			}
			content += "targets:\n"
			for name := range targets {
				content += "  " + name + ": { kind: noop }\n"
			}
		}
		environ := environ()
		for _, reference := range references.FindAllStringSubmatch(content, -1) {
			if reference[1] != "DATABASE_URL" && reference[1] != "STRIPE_SECRET" {
				environ = append(environ, reference[1]+"=whsec_b25jZWdhdGUtZGV2ZWxvcG1lbnQtc2VjcmV0LTMy")
			}
		}
		_, err := config.Load(config.Options{File: "readme.yml", Content: []byte(content), Environ: environ, Catalog: loaded(t)})
		if err != nil {
			t.Errorf("%s%v", content, err)
		}
		read++
	}
	if read < 4 {
		t.Errorf("%d examples were found", read)
	}
}

// The custom provider of README has ten lines with its source, takes nothing over that
// it does not say, and verifies what such a sender signs.
func TestCustomProviderOfTheReadme(t *testing.T) {
	t.Parallel()
	for _, example := range examples.FindAllStringSubmatch(readme(t), -1) {
		content := example[1]
		if !strings.Contains(content, "extends:") {
			continue
		}
		if lines := strings.Count(strings.TrimSpace(content), "\n") + 1; lines > 10 {
			t.Errorf("it has %d lines", lines)
		}
		content += "targets: { billing: { kind: noop } }\n"
		cfg, err := config.Load(config.Options{File: "readme.yml", Content: []byte(content), Environ: append(environ(), "ACME_SECRET=s3cret-value"), Catalog: loaded(t)})
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
	t.Error("README shows no custom provider")
}

func readme(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
