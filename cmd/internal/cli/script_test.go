package cli_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/migrations"
)

var updateScripts = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"oncegate": func() { os.Exit(mainWithCodes()) },
	})
}

// TestScripts tests the command line as users run it: each script runs the real program with a
// separate schema, which is initially empty.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.EmptySchema(t)
			uncoded := filepath.Join(t.TempDir(), "uncoded")
			t.Cleanup(func() { // after the script, which is a parallel test
				if found, err := os.ReadFile(uncoded); err == nil {
					t.Errorf("errors without the right code:\n%s", found)
				}
			})
			testscript.Run(t, testscript.Params{
				Files:               []string{file},
				UpdateScripts:       *updateScripts,
				RequireExplicitExec: true,
				Setup: func(env *testscript.Env) error {
					env.Setenv("DATABASE_URL", url)
					env.Setenv("OTHER_DATABASE_URL", inboxtest.OtherDatabase(t, url))
					env.Setenv("ONCEGATE_SCHEMA", schema)
					env.Setenv("VERSION", strconv.Itoa(migrations.Version))
					env.Setenv("PORT", "0")
					env.Setenv("ONCEGATE_ADMIN", "127.0.0.1:0")
					env.Setenv("NO_COLOR", "1")
					env.Setenv(uncodedFile, uncoded)
					env.Values[shopKey{}], env.Values[programKey{}] = new(oldShop), new(localProgram)
					// Without this, each command would sleep for a second at its end to detect late
					// races.
					env.Setenv("GORACE", "atexit_sleep_ms=0")
					for _, name := range []string{"FREE_PUBLIC", "FREE_ADMIN", "FREE_PUBLIC_2", "FREE_ADMIN_2", "FREE_PROGRAM"} {
						address, err := rig.FreeAddress()
						if err != nil {
							return err
						}
						env.Setenv(name, address)
					}
					return nil
				},
				Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
					"code": code, "eventually": eventually, "running": running, "same": same, "ready": ready, "refusal": refusal,
					"target": target, "first": first, "digest": digest, "newer": newer, "node": node, "sql": sql, "pruning": pruning, "leaks": leaks, "flaky": flaky, "program": program, "session": session, "revoked": revoked, "output": output, "asks": asks, "browse": browse, "hangup": hangup, "switching": switching,
				},
			})
		})
	}
}

// code N PROGRAM ARGS: the program must exit with N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program [args]")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// patience is how long a script waits for what a busy machine does late.
const patience = 60 * time.Second

// poll waits until done returns true. These tests wait only in this way.
func poll(ts *testscript.TestScript, what string, done func() bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// eventually REGEXP PROGRAM ARGS: repeats the program until its output matches.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually regexp program [args]")
	}
	pattern := regexp.MustCompile("(?m)" + args[0])
	poll(ts, args[0], func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && pattern.MatchString(ts.ReadFile("stdout"))
	})
}

// running waits for the `oncegate dev` of the script.
func running(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: running")
	}
	path := ts.MkAbs(filepath.Join(".oncegate", "dev", "state.json"))
	poll(ts, "oncegate dev", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// ready URL: waits until the address answers 200.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready url")
	}
	poll(ts, args[0], func() bool {
		client := http.Client{Timeout: time.Second}
		response, err := client.Get(args[0])
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// hangup sends SIGHUP to the program in the background.
func hangup(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 || len(ts.BackgroundCmds()) != 1 {
		ts.Fatalf("usage: hangup, with one program in the background")
	}
	ts.Check(ts.BackgroundCmds()[0].Process.Signal(syscall.SIGHUP))
}

var changing = []struct{ pattern, with string }{
	{`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`, "00000000-0000-7000-8000-000000000000"},
	{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ`, "2026-01-01 00:00:00Z"},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z`, "2026-01-01T00:00:00Z"},
	{`sha256 [0-9a-f]{64}`, "sha256 ..."},
	{`\d+ bytes`, "0 bytes"},
	{`( |\b)\d+(\.\d+)?(ms|s) `, " TOOK "},
	{` +\d+\.\d$`, " MS"},
	{` +MS$`, " MS"},
	// Some of several simultaneous deliveries may not be counted, because none waits for the row.
	{`evt_2 +(1\d|20) `, "evt_2     20 "},
	{`^deliveries  (1\d|20)$`, "deliveries  20"},
}

// same FILE: the output of the last program must equal FILE, except for parts that change from run
// to run.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: same file")
	}
	got := ts.ReadFile("stdout")
	for _, c := range changing {
		got = regexp.MustCompile("(?m)"+c.pattern).ReplaceAllString(got, c.with)
	}
	if want := ts.ReadFile(args[0]); got != want {
		ts.Fatalf("--- got\n%s--- want\n%s", got, want)
	}
}

// target NAME STATUS...: sets the variable NAME to the address of a target that returns the
// statuses in order, and then repeats the last one. Its successful responses say that it knew the
// key.
func target(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: target name status...")
	}
	statuses := make([]int, len(args)-1)
	for i, text := range args[1:] {
		var err error
		if statuses[i], err = strconv.Atoi(text); err != nil {
			ts.Fatalf("%v", err)
		}
	}
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status := statuses[min(int(calls.Add(1)), len(statuses))-1]
		if status < 300 {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		w.WriteHeader(status)
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL)
}

// newer [allowed]: changes the schema as the next version of the program would. With "allowed",
// this program may run on it.
func newer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 || len(args) == 1 && args[0] != "allowed" {
		ts.Fatalf("usage: newer [allowed]")
	}
	conn, err := pgx.Connect(context.Background(), ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	defer conn.Close(context.Background())
	table := pgx.Identifier{ts.Getenv("ONCEGATE_SCHEMA"), "oncegate_migration"}
	_, err = conn.Exec(context.Background(), "UPDATE "+table.Sanitize()+" SET version = version + 1")
	ts.Check(err)
	if len(args) == 1 {
		stated := pgx.Identifier{ts.Getenv("ONCEGATE_SCHEMA"), "schema_version"}
		_, err = conn.Exec(context.Background(), "INSERT INTO "+stated.Sanitize()+" (tables, version, oldest) VALUES ('oncegate', $1, $2)", migrations.Version+1, migrations.Version)
		ts.Check(err)
	}
}

// node NAME: inserts a live process of the name. "gone" removes all processes.
func node(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: node name")
	}
	conn, err := pgx.Connect(context.Background(), ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	defer conn.Close(context.Background())
	table := pgx.Identifier{ts.Getenv("ONCEGATE_SCHEMA"), "node"}.Sanitize()
	if args[0] == "gone" {
		_, err = conn.Exec(context.Background(), "DELETE FROM "+table)
	} else {
		_, err = conn.Exec(context.Background(), "INSERT INTO "+table+` (id, name, version, roles, configuration, key_ids, key_fingerprints, started_at, heartbeat, schema_known, river_known)
			VALUES (gen_random_uuid(), $1, 'v1.2.3', '{work}', 'c', '{}', '{}', now(), now(), $2, $3)`, args[0], migrations.Version, migrations.RiverVersion)
	}
	ts.Check(err)
}

// sql STATEMENT: runs the statement in the schema, as another database user would.
func sql(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql statement")
	}
	conn, err := pgx.Connect(context.Background(), ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), "SET search_path = "+pgx.Identifier{ts.Getenv("ONCEGATE_SCHEMA")}.Sanitize())
	ts.Check(err)
	_, err = conn.Exec(context.Background(), args[0])
	ts.Check(err)
}

// pruning: another session takes the lock of prune, as a pass does, until the script ends.
func pruning(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: pruning")
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	ts.Defer(func() { _ = conn.Close(ctx) })
	_, err = conn.Exec(ctx, `SELECT pg_advisory_lock($1::int, hashtext($2))`, advisory.Prune, ts.Getenv("ONCEGATE_SCHEMA"))
	ts.Check(err)
}

// leaks MARKER: some table of the schema contains the marker as text, as bytes or in base64. With
// !, no table does.
func leaks(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] leaks marker")
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT relname::text FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'`,
		pgx.Identifier{ts.Getenv("ONCEGATE_SCHEMA")}.Sanitize())
	ts.Check(err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	ts.Check(err)
	forms := []string{args[0], hex.EncodeToString([]byte(args[0])), base64.StdEncoding.EncodeToString([]byte(args[0]))}
	var found []string
	for _, table := range tables {
		var content strings.Builder
		_, err := conn.PgConn().CopyTo(ctx, &content, "COPY "+pgx.Identifier{ts.Getenv("ONCEGATE_SCHEMA"), table}.Sanitize()+" TO STDOUT")
		ts.Check(err)
		for _, form := range forms {
			if strings.Contains(content.String(), form) {
				found = append(found, table)
			}
		}
	}
	if neg != (len(found) == 0) {
		ts.Fatalf("tables that hold %s: %v", args[0], found)
	}
}

// first NAME PROGRAM ARGS: sets the variable NAME to the first "id" of the JSON that the program
// prints.
func first(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: first name program [args]")
	}
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		ts.Fatalf("%v", err)
	}
	found := regexp.MustCompile(`"id": "([^"]+)"`).FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("no id in the output")
	}
	ts.Setenv(args[0], found[1])
}

// digest NAME: sets $NAME to the beginning of the digest that the command before has printed as JSON.
func digest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: digest name")
	}
	found := regexp.MustCompile(`"digest": "([0-9a-f]{8})`).FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("no digest in the output")
	}
	ts.Setenv(args[0], found[1])
}

// refusal SOURCE: sets $REFUSAL to the id of the newest refusal that was diagnosed as a changed
// body.
func refusal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: refusal source")
	}
	ts.Check(ts.Exec("oncegate", "refusals", "list", "--source", args[0], "--output", "json"))
	var page struct {
		Data []struct{ ID, Diagnosis string }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &page))
	for _, row := range page.Data {
		if strings.Contains(row.Diagnosis, "the body is not what was signed") {
			ts.Setenv("REFUSAL", row.ID)
			return
		}
	}
	ts.Fatalf("no diagnosed refusal of %s", args[0])
}
