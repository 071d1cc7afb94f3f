package docs_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/control/controltest"
)

// Every command has an operation and a page, or the table of places says why not. Each command
// requests the operation that the table lists: the test runs it against a server that records the
// requests.
func TestEveryCommandHasItsPlace(t *testing.T) {
	t.Parallel()
	asked := map[string]map[string]int{}
	for command, lines := range typedAtServer {
		asked[command] = map[string]int{}
		for _, line := range lines {
			t.Logf("oncegate %s", line)
			maps.Copy(asked[command], askedAtServer(t, line))
		}
	}
	placed := map[string]bool{}
	for _, place := range console.Places() {
		for _, command := range place.Commands {
			placed[command] = true
			if place.Operation == "" {
				continue
			}
			if asked[command][place.Operation] == 0 {
				t.Errorf("`oncegate %s` does not ask %s, but %v", command, place.Operation, slices.Sorted(maps.Keys(asked[command])))
			}
		}
	}
	var known []string
	for _, cmd := range leaves(cli.Command()) {
		path := strings.TrimPrefix(cmd.CommandPath(), "oncegate ")
		known = append(known, path)
		if !placed[path] {
			t.Errorf("`oncegate %s` has no operation and no page, and the table of places gives no reason", path)
		}
	}
	for command := range placed {
		if !slices.Contains(known, command) {
			t.Errorf("there is no command `oncegate %s`", command)
		}
	}
}

const (
	id     = controltest.SomeID
	decide = " --reason test --yes"
)

// typedAtServer contains command lines that request the operations of the table, by command.
var typedAtServer = map[string][]string{
	"audit list": {"audit list"}, "conflicts admit": {"conflicts admit " + id + decide}, "conflicts list": {"conflicts list"}, "conflicts dismiss": {"conflicts dismiss " + id + decide},
	"conflicts show": {"conflicts show " + id + " --diff", "conflicts show " + id + " --body"},
	"dead list":      {"dead list", "dead list --group"}, "dead show": {"dead show " + id, "dead show 0199aaaa"},
	"dead discard": {"dead discard --source s" + decide}, "dead replay": {"dead replay --source s" + decide},
	"effects list": {"effects list", "effects list --group", "effects list --list " + id}, "effects show": {"effects show " + id},
	"effects cancel":  {"effects cancel " + id + decide},
	"effects resolve": {"effects resolve " + id + " --done" + decide, "effects resolve --source s --done" + decide, "effects resolve --all --dry-run"},
	"erase":           {"erase --source s --key k" + decide, "erase --label a=b" + decide}, "events list": {"events list"}, "events tail": {"events tail --since 1h"},
	"events show": {"events show " + id, "events show " + id + " --body"},
	"listen":      {"listen --to 1 --since 1h"}, "keys list": {"keys list"}, "logins link": {"logins link"}, "logins list": {"logins list"}, "logins revoke": {"logins revoke " + id + decide},
	"notifications list": {"notifications list"}, "notifications test": {"notifications test --reason test"},
	"nodes list": {"nodes list"}, "outbox discard": {"outbox discard 7" + decide}, "outbox list": {"outbox list"}, "outbox show": {"outbox show 7"},
	"providers list": {"providers list"}, "providers show": {"providers show stripe"}, "prune": {"prune --dry-run"}, "reload": {"reload --dry-run"},
	"refusals list": {"refusals list", "refusals list --group"}, "refusals acknowledge": {"refusals acknowledge --all --withdraw" + decide}, "refusals show": {"refusals show " + id, "refusals show " + id + " --body"}, "refusals reverify": {"refusals reverify --source s --dry-run"},
	"refusals erase": {"refusals erase --source s --containing text" + decide}, "reconcile": {"reconcile s --since 24h --dry-run"},
	"replay cancel": {"replay cancel " + id + decide}, "replay items": {"replay items " + id}, "replay list": {"replay list"}, "replay plan": {"replay plan --source s", "replay plan --label a=b --compare"},
	"replay run": {"replay run " + id + " --digest 12345678" + decide}, "replay status": {"replay status " + id},
	"routes discard": {"routes discard s/r --dry-run"}, "routes list": {"routes list"}, "routes move": {"routes move s/r --to other --dry-run"}, "targets list": {"targets list"},
	"sessions list": {"sessions list"}, "sessions revoke": {"sessions revoke " + id + decide, "sessions revoke --source s" + decide},
	"sources create": {"sources create s --file testdata/source.yml --reason test"}, "sources update": {"sources update s --file testdata/source.yml --reason test"},
	"sources disable": {"sources disable s --reason test"}, "sources enable": {"sources enable s --reason test"},
	"sources pause": {"sources pause s --reason test"}, "sources resume": {"sources resume s --reason test"},
	"routes pause": {"routes pause s/r --reason test"}, "routes resume": {"routes resume s/r --reason test"},
	"targets pause": {"targets pause t --reason test"}, "targets resume": {"targets resume t --reason test"}, "targets show": {"targets show t"},
	"targets test": {"targets test t --reason test"},
	"sources list": {"sources list"}, "sources show": {"sources show s"}, "sources test": {"sources test s --reason test"}, "status": {"status"},
	"streams apply": {"streams apply 7" + decide, "streams apply " + id + decide}, "streams list": {"streams list", "streams list --undecided"}, "streams show": {"streams show 7"},
	"streams skip": {"streams skip 7" + decide, "streams skip " + id + decide}, "streams unblock": {"streams unblock 7" + decide},
	"suppressions add": {"suppressions add a@example.com --reason test"}, "suppressions check": {"suppressions check a@example.com"},
	"suppressions import": {"suppressions import FILE" + decide}, "suppressions list": {"suppressions list"}, "suppressions remove": {"suppressions remove a@example.com" + decide},
	"tokens create": {"tokens create n --scope read-metadata"}, "tokens list": {"tokens list"}, "tokens revoke": {"tokens revoke n" + decide},
}

// maxAsked is how many requests of one command the server answers. Its answers always say that
// there is more, so a command that pages or waits would never end.
const maxAsked = 20

// askedAtServer runs a command against a server that answers everything, and returns the operations
// that the command requested. The command may reject the answers.
func askedAtServer(t *testing.T, line string) map[string]int {
	t.Helper()
	filler := &controltest.Filler{Text: string(inbox.EffectIndeterminate), At: time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)}
	mux := http.NewServeMux()
	var requests atomic.Int32
	for _, operation := range control.Operations() {
		d := operation.Describe()
		mux.HandleFunc(d.Method+" "+api.Prefix+d.Path, func(w http.ResponseWriter, _ *http.Request) {
			if requests.Add(1) > maxAsked {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			response := reflect.New(d.Response)
			filler.Answer(d.ID, response.Interface())
			if _, ok := reflect.TypeAssert[*control.Content](response); ok {
				w.Header().Set("Content-Disposition", "attachment; filename=x")
			}
			_ = json.NewEncoder(w).Encode(response.Interface())
		})
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "addresses")
	if err := os.WriteFile(file, []byte("a@example.com\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(strings.ReplaceAll(line, "FILE", file))
	var out, problems bytes.Buffer
	code := cli.Main(append(args, "--server", server.URL), []string{"ONCEGATE_TOKEN=og_test", "HOME=" + t.TempDir()}, strings.NewReader(""), &out, &problems)
	t.Logf("exit %d: %s", code, problems.String())
	if code == 2 {
		t.Errorf("oncegate %s is typed wrongly", line)
	}
	return filler.Asked()
}

// leaves returns the commands that do something themselves.
func leaves(cmd *cobra.Command) (out []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		switch {
		case sub.Hidden || sub.Name() == "help" || sub.Name() == "completion":
		case sub.HasSubCommands():
			out = append(out, leaves(sub)...)
		default:
			out = append(out, sub)
		}
	}
	return out
}
