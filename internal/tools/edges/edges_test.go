// Package edges_test checks the direction of imports, including indirect ones. The linter checks
// only one file at a time.
package edges_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/oncegate/oncegate"

const (
	echo     = "github.com/labstack/echo"
	river    = "github.com/riverqueue"
	pgx      = "github.com/jackc/pgx"
	pgxpool  = "github.com/jackc/pgx/v5/pgxpool"
	metrics  = "github.com/prometheus"
	cobra    = "github.com/spf13/cobra"
	embedded = "github.com/fergusstrange/embedded-postgres"
	script   = "github.com/rogpeppe/go-internal"
)

func ours(paths ...string) []string {
	for i, path := range paths {
		paths[i] = module + "/" + path
	}
	return paths
}

// room returns what packages for one noun of the inbox must not import, including the other such
// packages.
func room(others ...string) []string {
	return append(ours(append(others, "providers", "jobs", "migrations", "cmd", "inbox/receiver", "inbox/admin")...), river, echo, metrics, cobra)
}

// rules lists what the packages of a pattern must never import, directly or through others. A
// pattern that ends in /... includes the packages below it.
var rules = []struct {
	pattern string
	never   []string
}{
	{"...", []string{embedded}},
	{"providers/...", append(ours("inbox", "jobs", "migrations", "internal/config", "cmd"), pgx, river, echo, metrics, cobra, "database/sql")},
	{"jobs/effect/...", append(ours("inbox", "providers", "migrations", "cmd"), pgxpool, river, echo, metrics, cobra)},
	{"inbox/reasons", append(ours("providers", "jobs", "migrations", "cmd"), pgx, river, echo, metrics)},
	{"inbox", append(ours("inbox/read", "inbox/operation", "inbox/decide", "providers", "jobs", "migrations", "internal/config", "cmd", "inbox/receiver", "inbox/admin"), river, echo, metrics, cobra)},
	{"inbox/operation", room("inbox/read", "inbox/decide", "inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "inbox/registry", "inbox/suppression")},
	{"inbox/read", room("inbox/operation", "inbox/decide", "inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "inbox/registry", "inbox/suppression")},
	{"inbox/decide", room("inbox/operation", "inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "inbox/registry", "inbox/suppression")},
	{"inbox/gate/...", room("inbox/read", "inbox/operation", "inbox/decide")},
	{"inbox/relay/...", room("inbox/gate", "inbox/refusal", "inbox/replay", "inbox/prune")},
	{"inbox/consume/...", append(room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "inbox/registry", "inbox/read"), pgx)},
	{"inbox/refusal/...", room("inbox/gate", "inbox/relay", "inbox/replay", "inbox/prune")},
	{"inbox/reconcile/...", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "inbox/registry", "inbox/read", "internal/egress")},
	{"inbox/replay/...", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/prune")},
	{"inbox/prune/...", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay")},
	{"inbox/registry/...", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune")},
	{"inbox/suppression/...", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "inbox/registry", "inbox/node")},
	{"inbox/node/...", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "inbox/registry")},
	{"inbox/rollup/...", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "inbox/registry", "inbox/node", "inbox/suppression")},
	{"inbox/labels/...", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "inbox/registry", "inbox/node", "inbox/suppression", "inbox/rollup")},
	{"inbox/attention/...", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "inbox/registry", "inbox/node", "inbox/suppression")},
	{"inbox/internal/locks", ours("providers", "jobs", "migrations", "cmd")},
	{"inbox/internal/row", ours("inbox", "providers", "jobs", "migrations", "cmd")},
	{"inbox/receiver/...", append(ours("jobs", "migrations", "cmd", "providers/catalog"), river, cobra)},
	{"inbox/admin/...", append(ours("jobs", "migrations", "cmd", "providers"), river, cobra)},
	{"inbox/sequence/...", append(ours("inbox", "providers", "jobs", "migrations", "cmd"), pgx, river, echo, metrics)},
	{"inbox/seal/...", append(ours("inbox", "providers", "jobs", "migrations", "cmd"), pgx, river, echo, metrics)},
	{"jobs", append(ours("providers", "migrations", "internal/config", "cmd", "inbox/receiver", "inbox/admin"), echo, cobra)},
	{"internal/egress", append(ours("inbox", "providers", "jobs", "migrations", "cmd", "internal/expression"), pgx, river, echo, metrics, cobra)},
	{"internal/expression", append(ours("inbox", "providers", "jobs", "migrations", "cmd", "internal/egress"), pgx, river, echo, metrics, cobra)},
	{"internal/session", append(ours("inbox", "providers", "jobs", "migrations", "cmd", "internal/egress", "internal/expression"), river, echo, metrics, cobra)},
	{"migrations", append(ours("inbox", "providers", "jobs", "cmd"), echo, metrics, cobra)},
	{"internal/jsonspan", append(ours("inbox", "providers", "jobs", "migrations", "internal/egress", "internal/expression", "internal/session", "internal/visible", "internal/yamltree"), pgx, river, echo, metrics, cobra, "database/sql")},
	{"internal/yamltree", append(ours("inbox", "providers", "jobs", "migrations", "internal/egress", "internal/expression", "internal/session", "internal/visible"), pgx, river, echo, metrics, cobra, "database/sql")},
	{"internal/background", append(ours("inbox", "providers", "jobs", "migrations", "internal/egress", "internal/expression", "internal/session", "internal/visible"), pgx, river, echo, metrics, cobra, "database/sql")},
	{"internal/sleep", append(ours("inbox", "providers", "jobs", "migrations", "internal/egress", "internal/expression", "internal/session", "internal/visible"), pgx, river, echo, metrics, cobra, "database/sql")},
	{"internal/config", append(ours("migrations"), river, cobra)},
	{"", append(ours("cmd", "internal/devpg", "internal/trials", "inbox/inboxtest"), cobra, "testing")},
	{"internal/server", append(ours("cmd", "internal/devpg", "internal/trials", "inbox/inboxtest"), cobra, "testing")},
	{"internal/app", append(ours("cmd", "internal/server", "internal/api", "internal/console", "internal/devpg", "internal/trials", "inbox/inboxtest"), cobra, "testing")},
	{"internal/access/tokens", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "internal/control", "internal/config")},
	{"internal/access/logins", room("inbox/gate", "inbox/relay", "inbox/refusal", "inbox/replay", "inbox/prune", "internal/control", "internal/config")},
	{"internal/access", append(ours("cmd", "internal/api", "internal/console", "inbox/inboxtest"), cobra, "testing")},
	{"internal/drill/...", append(ours("inbox", "providers", "jobs", "cmd", "egress", "expression", "internal/app", "internal/config", "internal/devpg", "internal/trials"), echo, metrics, cobra, "testing")},
	{"internal/devpg", append(ours("inbox", "providers", "jobs", "migrations"), river, echo, metrics, cobra)},
	{"cmd/oncegate", append(ours("inbox/inboxtest", "providers/catalog/catalogtest", "providers/providertest", "jobs/effect/effecttest", "internal/egress/egresstest", "internal/devpg", "internal/tools", "internal/trials"), script, "testing")},
}

// exempt lists packages to which a wider pattern does not apply.
var exempt = map[string][]string{
	"...": {"cmd/oncegate-postgres"}, // the only one that downloads a PostgreSQL
}

// permitted lists packages that a pattern may import although a rule forbids a package above them.
var permitted = map[string][]string{
	"jobs/effect/...": {"inbox/reasons"}, // only the words for a failure
}

func TestImportsFlowOneWay(t *testing.T) {
	t.Parallel()
	packages := list(t)
	if len(packages) < 5 {
		t.Fatalf("go list named only %d packages", len(packages))
	}
	for _, rule := range rules {
		for path, deps := range packages {
			name := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
			if !matches(rule.pattern, name) || slices.Contains(exempt[rule.pattern], name) {
				continue
			}
			for _, dep := range deps {
				for _, never := range rule.never {
					if covers(never, dep, name) && !slices.Contains(permitted[rule.pattern], strings.TrimPrefix(dep, module+"/")) {
						t.Errorf("%s pulls in %s", name, dep)
					}
				}
			}
		}
	}
}

// TestNothingImportsCmd checks every package outside cmd.
func TestNothingImportsCmd(t *testing.T) {
	t.Parallel()
	for path, deps := range list(t) {
		if strings.HasPrefix(path, module+"/cmd/") || strings.HasPrefix(path, module+"/scripts/") {
			continue
		}
		for _, dep := range deps {
			if strings.HasPrefix(dep, module+"/cmd/") {
				t.Errorf("%s pulls in %s", path, dep)
			}
		}
	}
}

func matches(pattern, name string) bool {
	prefix, below := strings.CutSuffix(pattern, "...")
	if !below {
		return name == pattern
	}
	return strings.HasPrefix(name+"/", prefix)
}

// covers reports whether dep is the forbidden package or one below it. It returns false for the
// package itself and those below it, because inbox/sequence is below inbox.
func covers(never, dep, name string) bool {
	if dep != never && !strings.HasPrefix(dep, never+"/") {
		return false
	}
	own := module + "/" + name
	if dep == own || strings.HasPrefix(dep, own+"/") {
		return false
	}
	// The rule is about the package testing itself, not the standard library's small packages below
	// it.
	return never != "testing" || dep == "testing"
}

// list returns all direct and indirect imports of each package of the module, without tests.
func list(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Deps", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("listing packages: %v: %s", err, exit.Stderr)
		}
		t.Fatalf("listing packages: %v", err)
	}
	packages := map[string][]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Deps       []string
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("listing packages: %v", err)
		}
		packages[p.ImportPath] = p.Deps
	}
}
