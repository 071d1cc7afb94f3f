package check_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const (
	manifests = "../../kubernetes/oncegate.yaml"

	header = `# Oncegate in Kubernetes without Helm, generated from the defaults of deploy/helm/oncegate. Change the image, the
# configuration and the names, make the Secret, and apply it:
#
#   kubectl -n webhooks create secret generic oncegate --from-file=database_url --from-file=github
#   kubectl apply -f oncegate.yaml
#
# For an upgrade, delete the Job of the migration before, wait for the new one, and look at it before the pods are replaced:
# docs/guides/proxies.md.
`
)

// order is the order of the objects in the file.
var order = []string{"config.yaml", "network.yaml", "services.yaml", "disruption.yaml", "migrate.yaml", "receive.yaml", "work.yaml"}

var (
	ofHelm  = regexp.MustCompile(`(?m)^ *(helm\.sh/|app\.kubernetes\.io/managed-by: ).*\n`)
	nothing = regexp.MustCompile(`(?m)^ *annotations:\n(spec:)`)
	blank   = regexp.MustCompile(`\n{2,}`)
)

// The plain manifests are those of the chart. UPDATE_GOLDEN=1 writes them.
func TestManifestsAreTheChartsDefaults(t *testing.T) {
	t.Parallel()
	files, err := render("")
	if err != nil {
		t.Fatal(err)
	}
	text := header
	for _, name := range order {
		plain := nothing.ReplaceAllString(ofHelm.ReplaceAllString(files[name], ""), "$1")
		text += "---\n" + strings.TrimPrefix(strings.TrimSpace(blank.ReplaceAllString(plain, "\n")), "---\n") + "\n"
	}
	if len(decode(t, text)) != len(rendered(t, "")) {
		t.Fatal("some objects of the chart are missing")
	}
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(manifests, []byte(text), 0o644); err != nil { //nolint:gosec // everybody may read it
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != text {
		t.Errorf("%s is out of date: UPDATE_GOLDEN=1 go test ./... in deploy/helm/check writes it", manifests)
	}
}
