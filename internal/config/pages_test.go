package config_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

var (
	examples   = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	references = regexp.MustCompile(`env: ?([A-Z0-9_]+)`)
)

// Every example on a provider's page is a configuration that loads, with the secrets of the
// provider's own vectors.
func TestExamplesOfThePagesLoad(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../providers/docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	cat := loaded(t)
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			secret, files := given(t, name)
			found := examples.FindAllSubmatch(text, -1)
			if len(found) == 0 {
				t.Fatal("the page has no example")
			}
			for _, example := range found {
				content := strings.ReplaceAll(string(example[1]), "file:/etc/oncegate/", "file:"+files+"/")
				environ := []string{"DATABASE_URL=postgres://u:p@db.example/oncegate"}
				for _, reference := range references.FindAllStringSubmatch(content, -1) {
					value := "user:password"
					if reference[1] == strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"_SECRET" {
						value = secret
					}
					environ = append(environ, reference[1]+"="+value)
				}
				_, err := config.Load(config.Options{File: "page.yml", Content: []byte(content), Environ: environ, Catalog: cat})
				if err != nil {
					t.Errorf("%s%v", content, err)
				}
				if err := schemaOf(t).Validate(asJSON(t, content)); err != nil {
					t.Errorf("%sthe schema refuses it: %v", content, err)
				}
			}
		})
	}
}

// given returns a secret that verifies a vector of the provider, and a directory with the file that
// one of the examples names.
func given(t *testing.T, name string) (secret, files string) {
	t.Helper()
	vectors, err := providertest.Vectors(testdata.Files, name)
	if err != nil {
		t.Fatal(err)
	}
	files = t.TempDir()
	for i := range vectors {
		v := &vectors[i]
		if !v.Valid || v.Spec != "" || v.Kind == "handshake" {
			continue
		}
		if secret == "" {
			secret = v.Secret
		}
		if secret == "" && len(v.Several) > 0 {
			secret = v.Several[0].Value
		}
		for _, ca := range v.Settings["ca"] {
			if err := os.WriteFile(filepath.Join(files, "sender-ca.pem"), []byte(ca), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return cmp.Or(secret, "one that no vector has"), files
}
