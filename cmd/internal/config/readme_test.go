package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/config"
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
