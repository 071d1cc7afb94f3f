package cli_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/inbox/attention"
)

// A count that ran out of time says which rows it does not include, in tables and in JSON.
func TestACountSaysWhatItDoesNotInclude(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/api/v1/dead-letters/groups":   `{"data":[{"count":92,"more":true,"source":"shop","reason":"timeout"}],"has_more":false,"searched_to":"2026-11-20T10:00:00Z"}`,
		"/api/v1/indeterminates/groups": `{"data":[{"count":3,"more":true,"source":"shop","route":"pay"}],"has_more":false,"searched_to":"2026-11-20T11:00:00Z"}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			t.Errorf("%s was asked", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	for line, want := range map[string]string{
		"dead list --group":                 "dead letters before 2026-11-20 10:00:00Z are not counted",
		"dead list --group --columns count": "at least 3 unknown outcomes",
		"dead list --group ":                "92+",
		"dead list --group --json":          `"searched_to": "2026-11-20T10:00:00Z"`,
		"effects resolve --all --dry-run":   "at least 3 indeterminate effects would be resolved",
		"effects resolve --all --dry-run  ": "3+",
		"effects resolve --all --dry-run ":  "the counts are lower bounds, because the search ran out of time: unknown outcomes before 2026-11-20 11:00:00Z are not counted",
	} {
		var stdout, stderr bytes.Buffer
		code := cli.Main(append(strings.Fields(line), "--server", server.URL), []string{"ONCEGATE_TOKEN=og_any"}, strings.NewReader(""), &stdout, &stderr)
		if out := stdout.String() + stderr.String(); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, without %q:\n%s", line, code, want, out)
		}
	}
}

// status shows every kind of thing that waits, and each command that it names exists with its flags.
func TestStatusNamesACommandForEverythingThatWaits(t *testing.T) {
	t.Parallel()
	for _, kind := range attention.Kinds() {
		if kind == attention.Dead || kind == attention.Indeterminate {
			continue // these have lines of their own
		}
		command := cli.CommandOf(kind)
		var stdout, stderr bytes.Buffer
		if code := cli.Main(append(strings.Fields(command), "--help"), nil, strings.NewReader(""), &stdout, &stderr); command == "" || code != 0 || !strings.Contains(stdout.String(), "Usage:\n  oncegate "+withoutFlags(command)) {
			t.Errorf("%s: %q is no command: %s%s", kind, command, stdout.String(), stderr.String())
		}
	}
}

func withoutFlags(command string) string {
	before, _, _ := strings.Cut(command, " --")
	return before
}
