package cli_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
)

// lists contains the commands that list something in the database, with their columns.
var lists = map[string]string{
	"audit list":               "AT ACTOR ACTION OBJECT REASON ID",
	"conflicts list":           "FIRST SEEN SOURCE EVENT ID TYPE DELIVERIES ADMITTED DISMISSED DIFFERS IN LAST SEEN ID",
	"dead list":                "RECEIVED SOURCE TYPE EVENT ID ROUTE TARGET REASON CODE ATTEMPTS DIED SAID ID",
	"dead list --group":        "COUNT SOURCE ROUTE TARGET REASON CODE FIRST LAST EXAMPLE",
	"effects list":             "RECORDED SOURCE TYPE EVENT ID ROUTE TARGET STATE REASON ATTEMPTS CODE NEXT ID",
	"events list":              "RECEIVED SOURCE TYPE EVENT ID DELIVERIES EFFECTS ID",
	"notifications list":       "KIND WHAT SEEN TOLD GONE",
	"nodes list":               "NAME STATE HEARD VERSION ROLES KEYS CONFIGURATION STARTED",
	"outbox list":              "EMITTED SOURCE EVENT ID TYPE BYTES REFUSED ID",
	"refusals list":            "RECEIVED SOURCE CAUSE DIAGNOSIS FROM BYTES KEPT ID",
	"replay list":              "PLANNED STATE ITEMS TO DO ACTED OPEN DEAD ACTOR REASON ONLY ID",
	"routes list":              "SOURCE ROUTE TARGET GONE WAITING CLAIMED DEAD INDETERMINATE OLDEST PAUSED",
	"sources list":             "NAME PROVIDER ADDRESS CONFIGURED CLASS TENANT CREATED SHADOW PAUSED",
	"targets list":             "TARGET WAITING CLAIMED DEAD INDETERMINATE OLDEST PAUSED ROUTES",
	"sessions list":            "OPENED SOURCE CREDENTIAL RUN OPERATIONS STATE EXPIRES ID",
	"tokens list":              "CREATED NAME TOKEN SCOPES TENANT STATE EXPIRES LAST USED CREATED BY",
	"logins list":              "BEGAN WHO BY SCOPES TENANT STATE LAST USED ID",
	"streams list":             "STARTED SOURCE ROUTE KEY APPLIED HELD UNDECIDED GAP SINCE BLOCKED BY IN FLIGHT ID",
	"streams list --undecided": "RECEIVED SOURCE ROUTE KEY NUMBER REASON EVENT ID EFFECT",
	"suppressions list":        "ADDED ADDRESS REASON TARGET EXPIRES ID",
}

// elsewhere contains the lists of objects that are not in the database. Scripts test them.
var elsewhere = []string{"keys list", "providers list"}

// wrong contains invalid values of filters, by flag, with the error message. A flag that takes any
// name, such as --source, is not in the map, because a list filtered by an unknown name is just
// empty.
var wrong = map[string][]struct{ value, says string }{
	"limit":       {{"0", "must be from 1 to 1000"}, {"1001", "must be from 1 to 1000"}, {"x", `--limit "x" is not a whole number`}},
	"since":       {{"soon", "neither a duration such as 2h nor an instant"}},
	"until":       {{"soon", "neither a duration such as 2h nor an instant"}},
	"after":       {{"x", " of this list"}},
	"columns":     {{"nonsense", `--columns: "nonsense" is no column of this list; it has `}, {"id --json", "--columns is for tables"}},
	"state":       {{"nonsense", `--state "nonsense" is unknown; known are `}},
	"label":       {{"Order=1", `--label "Order=1": not a label; write name=value, such as order=1042: the name has at most 63`}},
	"list":        {{"x", `--list "x": not an id`}, {"019551b9-0000-7001-8001-020304050607 --source shop", "--source and --list: "}},
	"event":       {{"x", `--event "x" is not our id of an event`}},
	"error-class": {{"nonsense", `--error-class "nonsense" is unknown`}},
	"dead-reason": {{"nonsense", `--dead-reason "nonsense" is no reason`}},
	"as":          {{"nonsense", `--as "nonsense"`}},
	"cause":       {{"nonsense", `--cause "nonsense" is unknown; known are unknown_source, `}},
	"export":      {{"csv", `--export "csv" is unknown; known is jsonl`}},
	"verdict":     {{"nonsense", `"nonsense"`}},
	"outcome":     {{"nonsense", `"nonsense"`}},
	"output":      {{"xml", `--output "xml" is unknown; known are table, json, jsonl, csv`}},
}

// names contains the filters that accept any text.
var names = []string{"reason", "source", "tenant", "type", "route", "target", "text", "event-id", "key", "actor", "action", "object", "credential", "run", "peer"}

// asked runs the program with the database.
func asked(url, schema, line string) (code int, out, problems string) {
	var stdout, stderr bytes.Buffer
	environ := []string{"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema}
	code = cli.Main(strings.Fields(line), environ, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// Every list of an empty database shows only its columns, or an empty JSON list. Every invalid
// filter value is refused in one line with exit code 2. Every filter by an unknown name finds
// nothing. If you add a list or a filter, add it to this test.
func TestLists(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.EmptySchema(t)
	migrate := exec.CommandContext(t.Context(), "oncegate", "migrate", "up")
	migrate.Env = append(migrate.Environ(), "DATABASE_URL="+url, "ONCEGATE_SCHEMA="+schema)
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line, columns := range lists {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			code, out, problems := asked(url, schema, line)
			if got := strings.Join(strings.Fields(out), " "); code != 0 || got != columns || strings.Count(out, "\n") != 1 {
				t.Errorf("exit code %d, %q, %s; want the columns %q", code, out, problems, columns)
			}
			code, out, problems = asked(url, schema, line+" --output json")
			if code != 0 || !isEmptyList(out) {
				t.Errorf("as JSON: exit code %d, %q, %s", code, out, problems)
			}
			if code, out, problems = asked(url, schema, line+" --output jsonl"); code != 0 || out != "" {
				t.Errorf("as JSON lines: exit code %d, %q, %s", code, out, problems)
			}
		})
	}
	for _, key := range []string{"nobody", "og1_short", "<0b5fa3c2e1d4479886a7c0d19e2f3a4b@nobody.example"} {
		code, out, problems := asked(url, schema, "effects list --key "+key)
		if code != 2 || out != "" || strings.Count(problems, "\n") != 1 || !strings.Contains(problems, "nor a Message-ID") {
			t.Errorf("effects list --key %s: exit code %d, %q, %q; want 2 and one line", key, code, out, problems)
		}
	}
	for path, cmd := range listCommands(cli.Command()) {
		inherited := cmd.InheritedFlags() // it changes the tree of commands
		t.Run(path+" filters", func(t *testing.T) {
			t.Parallel()
			if path == "replay items" {
				path += " 0199a000-0000-7000-8000-000000000000"
			}
			for flag, values := range wrong {
				if cmd.Flags().Lookup(flag) == nil && inherited.Lookup(flag) == nil || flag == "after" && strings.HasPrefix(path, "replay items") { // its cursor is read only after its replay
					continue
				}
				for _, v := range values {
					code, out, problems := asked(url, schema, path+" --"+flag+" "+v.value)
					if code != 2 || out != "" || strings.Count(problems, "\n") != 1 || !strings.Contains(problems, v.says) {
						t.Errorf("--%s %s: exit code %d, %q, %q; want 2 and one line with %q", flag, v.value, code, out, problems, v.says)
					}
				}
			}
			for _, flag := range names {
				if cmd.Flags().Lookup(flag) == nil || strings.HasPrefix(path, "replay items") {
					continue
				}
				name := "nobody"
				if path == "effects list" && flag == "key" {
					name = "0b5fa3c2e1d4479886a7c0d19e2f3a4b@nobody.example"
				}
				code, out, problems := asked(url, schema, path+" --output json --"+flag+" "+name)
				if flag == "source" || flag == "route" || flag == "target" { // an empty list would say that it exists
					if code != 1 || out != "" || !strings.Contains(problems, "no "+flag+` is named \"nobody\"`) {
						t.Errorf("--%s nobody: exit code %d, %q, %s; want 1 and that there is none", flag, code, out, problems)
					}
					continue
				}
				if code != 0 || !isEmptyList(out) {
					t.Errorf("--%s nobody: exit code %d, %q, %s", flag, code, out, problems)
				}
			}
		})
	}
}

// isEmptyList reports whether JSON is an empty list in the envelope of the API.
func isEmptyList(text string) bool {
	var page read.Page[any]
	return json.Unmarshal([]byte(text), &page) == nil && page.Data != nil && len(page.Data) == 0 && !page.HasMore
}

// listCommands returns the commands that list something in the database. It fails if this test does
// not know one of them or one of their filters.
func listCommands(root *cobra.Command) map[string]*cobra.Command {
	out := map[string]*cobra.Command{}
	for _, group := range root.Commands() {
		for _, cmd := range group.Commands() {
			path := strings.TrimPrefix(cmd.CommandPath(), "oncegate ")
			if cmd.Name() == "list" || cmd.Name() == "items" {
				out[path] = cmd
			}
		}
	}
	for _, path := range elsewhere {
		delete(out, path)
	}
	return out
}

func TestEveryListIsTested(t *testing.T) {
	t.Parallel()
	found := listCommands(cli.Command())
	for path, cmd := range found {
		if lists[path] == "" && path != "replay items" { // it needs a replay, which the script replay.txtar has
			t.Errorf("`oncegate %s` is not among the lists of this test", path)
		}
		for _, flag := range flagNames(cmd) {
			if wrong[flag] == nil && !strings.Contains(" "+strings.Join(names, " ")+" all blocked gap undecided waiting group refused whole open help wide remember ended ", " "+flag+" ") {
				t.Errorf("`oncegate %s` has a filter --%s that this test does not know", path, flag)
			}
		}
	}
	if len(found) < 11 {
		t.Errorf("only %d lists were found", len(found))
	}
}

func flagNames(cmd *cobra.Command) []string {
	var out []string
	for line := range strings.Lines(cmd.LocalNonPersistentFlags().FlagUsages()) {
		for word := range strings.FieldsSeq(line) {
			if name, ok := strings.CutPrefix(word, "--"); ok {
				out = append(out, name)
				break
			}
		}
	}
	return out
}
