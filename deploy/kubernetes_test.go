package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

// The configuration of the manifests is one that Oncegate takes, and its secrets are files of the Secret. The module in helm/check tests the
// objects.
func TestManifestsHaveAConfiguration(t *testing.T) {
	t.Parallel()
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "kubernetes/oncegate.yaml")))
	var text string
	for text == "" {
		var object struct {
			Kind string
			Data map[string]string
		}
		if err := decoder.Decode(&object); err != nil {
			t.Fatalf("looking for the ConfigMap: %v", err)
		}
		if object.Kind == "ConfigMap" {
			text = object.Data["oncegate.yml"]
		}
	}
	dir := t.TempDir()
	if !strings.Contains(text, "/etc/oncegate/secrets/github") {
		t.Fatalf("the secret is elsewhere:\n%s", text)
	}
	path := filepath.Join(dir, "oncegate.yml")
	for name, content := range map[string]string{path: strings.ReplaceAll(text, "/etc/oncegate/secrets", dir), filepath.Join(dir, "github"): "secret", filepath.Join(dir, "database_url"): "postgres://oncegate@db/oncegate"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environ := []string{"DATABASE_URL_FILE=" + filepath.Join(dir, "database_url"), "ONCEGATE_ADMIN=:8081", "ONCEGATE_PUBLIC=:8080", "ONCEGATE_DRAIN_DELAY=10s"}
	loaded, err := config.Load(config.Options{File: path, Environ: environ, Catalog: new(catalog.Lazy)})
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Sources) != 1 {
		t.Errorf("it has the sources %+v", loaded.Sources)
	}
}
