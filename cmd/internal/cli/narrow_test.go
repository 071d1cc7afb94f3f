package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/inbox/inboxtest"
)

// filled inserts rows for the lists, with ids as long as those of real senders.
const filled = `
INSERT INTO source (id, name, provider, class) OVERRIDING SYSTEM VALUE VALUES (1, 'stripe-production-eu', 'stripe', 'default');
INSERT INTO route (id, source_id, name, target, kind, version, digest) OVERRIDING SYSTEM VALUE VALUES (1, 1, 'ledger-of-invoices', 'ledger-in-frankfurt', 'forward', 1, '\x01');
INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
SELECT i.id, 1, 'evt_1P9xKL2eZvKYlo2C0kTeRqX' || n, 'customer.subscription.pending_update_expired', sha256(''), now() - n * interval '1 minute', 'ok', 'default', i.id, 0, 0, 1, false, false
FROM generate_series(1, 3) n, LATERAL (SELECT ('0199a000-0000-7000-8000-00000000000' || n)::uuid AS id) i;
INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, reason, last_code, attempts)
SELECT ('0199a000-0000-7000-9000-00000000000' || n)::uuid, ('0199a000-0000-7000-8000-00000000000' || n)::uuid, 1, 1, 'key-' || n, 'dead', 'attempts_exhausted', '503', 12
FROM generate_series(1, 3) n;
INSERT INTO audit (id, at, actor, action, object, reason)
SELECT ('0199a000-0000-7000-a000-00000000000' || n)::uuid, now(), 'ann@example.com', 'effect.resolve.done', 'effect/0199a000-0000-7000-9000-00000000000' || n, 'it is in the statement of the bank of that day'
FROM generate_series(1, 3) n;`

// narrow runs the program for a terminal of 80 columns with a separate home directory.
func narrow(t *testing.T, url, schema, home string, args ...string) (code int, out, problems string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	environ := []string{"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "COLUMNS=80", "HOME=" + home}
	code = cli.Main(args, environ, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func filledSchema(t *testing.T) (url, schema string) {
	t.Helper()
	url, schema = inboxtest.EmptySchema(t)
	migrate := exec.CommandContext(t.Context(), "oncegate", "migrate", "up")
	migrate.Env = append(migrate.Environ(), "DATABASE_URL="+url, "ONCEGATE_SCHEMA="+schema)
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "SET search_path = "+pgx.Identifier{schema}.Sanitize()+";"+filled); err != nil {
		t.Fatal(err)
	}
	return url, schema
}

var (
	uuidText  = regexp.MustCompile(`0199a000-0000-7000-[89a]000-00000000000[123]`)
	eventText = regexp.MustCompile(`evt_1P9xKL2eZvKYlo2C0kTeRqX[123]`)
)

// At 80 columns, no line of a list is longer, ids are complete, and a list names the non-empty
// columns that it leaves out.
func TestListsFit80Columns(t *testing.T) {
	t.Parallel()
	url, schema := filledSchema(t)
	var rows atomic.Int32
	t.Cleanup(func() {
		if n := rows.Load(); n < 6 && !t.Failed() {
			t.Errorf("only %d lists had rows", n)
		}
	})
	for line, columns := range lists {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(line)
			code, out, problems := narrow(t, url, schema, t.TempDir(), args...)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, problems)
			}
			for shown := range strings.Lines(out) {
				if n := len([]rune(strings.TrimRight(shown, "\n"))); n > 80 {
					t.Errorf("a line of %d characters: %s", n, shown)
				}
			}
			code, wide, problemsOfWide := narrow(t, url, schema, t.TempDir(), append(args, "--wide")...)
			if code != 0 || strings.Contains(problemsOfWide, "also:") {
				t.Fatalf("--wide: exit code %d: %s", code, problemsOfWide)
			}
			for _, id := range append(uuidText.FindAllString(wide, -1), eventText.FindAllString(wide, -1)...) {
				if !strings.Contains(out, id) && !strings.Contains(line, "audit") { // no command takes the ids of audit entries
					t.Errorf("%s is cut or left out:\n%s", id, out)
				}
			}
			if strings.Count(wide, "\n") == 1 {
				return // there are no such rows, only the columns
			}
			rows.Add(1)
			body := strings.Join(strings.SplitAfter(out, "\n")[0:2], "")
			for _, name := range headerOf(columns, wide) {
				if !strings.Contains(body, name) && holds(wide, name) && !strings.Contains(problems, name) {
					t.Errorf("%s is left out and not named: %s\n%s", name, problems, out)
				}
			}
		})
	}
}

// headerOf returns the columns of a wide table.
func headerOf(columns, wide string) []string {
	head, _, _ := strings.Cut(wide, "\n")
	var out []string
	for name := range strings.SplitSeq(head, "  ") {
		if name = strings.TrimSpace(name); name != "" && name != "#" && strings.Contains(columns, name) {
			out = append(out, name)
		}
	}
	return out
}

// holds reports whether a column of a wide table is non-empty in any row.
func holds(wide, name string) bool {
	lines := strings.Split(strings.TrimRight(wide, "\n"), "\n")
	at := strings.Index(lines[0], name)
	return slices.ContainsFunc(lines[1:], func(line string) bool { return len(line) > at && line[at] != ' ' })
}

// @1 refers to the first row of the last list in this directory, and the command prints the id.
// Only the user can read the file.
func TestRowsOfTheLastListAreRemembered(t *testing.T) {
	t.Parallel()
	url, schema := filledSchema(t)
	home := t.TempDir()
	if code, _, problems := narrow(t, url, schema, home, "events", "show", "@1"); code != 2 || !strings.Contains(problems, "no list was shown here yet; `oncegate events list`") {
		t.Errorf("without a list: exit code %d, %s", code, problems)
	}
	_, out, _ := narrow(t, url, schema, home, "effects", "list")
	if !strings.Contains(out, "@3") {
		t.Errorf("the rows have no numbers:\n%s", out)
	}
	code, out, problems := narrow(t, url, schema, home, "effects", "show", "@1", "--json")
	if code != 0 || !strings.Contains(out, `"id": "0199a000-0000-7000-9000-000000000003"`) || !strings.Contains(problems, "oncegate: @1 is effect 0199a000-0000-7000-9000-000000000003 stripe-production-eu/evt_1P9xKL2eZvKYlo2C0kTeRqX3 ledger-of-invoices, of `oncegate effects list`") {
		t.Errorf("@1: exit code %d, %s%s", code, out, problems)
	}
	if code, out, problems := narrow(t, url, schema, home, "events", "show", "@2", "--json"); code != 0 || !strings.Contains(out, `"id": "0199a000-0000-7000-8000-000000000002"`) {
		t.Errorf("the event of @2: exit code %d, %s%s", code, out, problems)
	}
	for _, c := range []struct{ args, says string }{
		{"events show @4", "the last list, `oncegate effects list`, had 3 rows"},
		{"events show @0", "had 3 rows"},
		{"conflicts show @1", "has no conflict; `oncegate conflicts list` shows them"},
	} {
		if code, _, problems := narrow(t, url, schema, home, strings.Fields(c.args)...); code != 2 || !strings.Contains(problems, c.says) || strings.Count(problems, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q; want 2 and one line with %q", c.args, code, problems, c.says)
		}
	}
	files, err := filepath.Glob(filepath.Join(home, ".cache", "oncegate", "lists", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if mode := modeOf(t, files[0]); mode != "-rw-------" {
		t.Errorf("the file has the mode %s", mode)
	}
	if mode := modeOf(t, filepath.Dir(files[0])); mode != "drwx------" {
		t.Errorf("its directory has the mode %s", mode)
	}
	// Without a terminal, rows are remembered only with --remember.
	quiet := t.TempDir()
	var stdout, stderr bytes.Buffer
	environ := []string{"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "HOME=" + quiet}
	for want, args := range []string{"events list", "events list --json --remember"} {
		if code := cli.Main(strings.Fields(args), environ, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Fatalf("%s: %s", args, stderr.String())
		}
		if files, err := filepath.Glob(filepath.Join(quiet, ".cache", "oncegate", "lists", "*.json")); err != nil || len(files) != want {
			t.Errorf("%s: %d files, want %d, %v", args, len(files), want, err)
		}
	}
}

// A dead letter can be named by its sender's id or the beginning of its own id. An ambiguous
// reference is an error.
func TestReferencesOfDeadLetters(t *testing.T) {
	t.Parallel()
	url, schema := filledSchema(t)
	for _, ref := range []string{"evt_1P9xKL2eZvKYlo2C0kTeRqX2", "stripe-production-eu/evt_1P9xKL2eZvKYlo2C0kTeRqX2", "0199a000-0000-7000-9000-000000000002"} {
		if code, out, problems := asked(url, schema, "dead show "+ref+" --json"); code != 0 || !strings.Contains(out, `"id": "0199a000-0000-7000-9000-000000000002"`) {
			t.Errorf("%s: exit code %d, %s%s", ref, code, out, problems)
		}
	}
	code, out, problems := asked(url, schema, "dead show 0199a000-0000-7000-9000")
	if code != 2 || out != "" || strings.Count(problems, "\n") != 1 || !strings.Contains(problems, "0199a000-0000-7000-9000-000000000003") {
		t.Errorf("a beginning of several: exit code %d, %q, %q", code, out, problems)
	}
}

// --all writes one envelope, or one line per row. A page explains how to see the next page.
func TestListsArePaged(t *testing.T) {
	t.Parallel()
	url, schema := filledSchema(t)
	var page struct {
		Data    []struct{ ID string }
		HasMore bool `json:"has_more"`
		Next    string
	}
	code, out, problems := asked(url, schema, "events list --limit 2 --json")
	if err := json.Unmarshal([]byte(out), &page); code != 0 || err != nil || len(page.Data) != 2 || !page.HasMore || page.Next == "" {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, problems)
	}
	if want := fmt.Sprintf("oncegate: there is more: add --after %s, or --all\n", page.Next); problems != want {
		t.Errorf("it says %q, want %q", problems, want)
	}
	first := page.Data[0].ID
	page.Data, page.HasMore, page.Next = nil, true, ""
	code, out, problems = asked(url, schema, "events list --limit 2 --json --after "+cursorOf(t, url, schema))
	if err := json.Unmarshal([]byte(out), &page); code != 0 || err != nil || len(page.Data) != 1 || page.HasMore || page.Data[0].ID == first || problems != "" {
		t.Errorf("the second page: exit code %d, %v: %s%s", code, err, out, problems)
	}
	code, out, problems = asked(url, schema, "events list --all --output jsonl")
	if code != 0 || strings.Count(out, "\n") != 3 || problems != "" {
		t.Errorf("--all: exit code %d: %s%s", code, out, problems)
	}
	if code, _, problems := asked(url, schema, "events list --all --limit 2"); code != 2 || !strings.Contains(problems, "leave out --limit") {
		t.Errorf("--all and --limit: exit code %d: %s", code, problems)
	}
}

func cursorOf(t *testing.T, url, schema string) string {
	t.Helper()
	var page struct{ Next string }
	_, out, _ := asked(url, schema, "events list --limit 2 --json")
	if err := json.Unmarshal([]byte(out), &page); err != nil {
		t.Fatal(err)
	}
	return page.Next
}

func modeOf(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().String()
}
