package docs_test

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/cmd/internal/docs"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/providers/listing/listingtest"
)

//go:embed testdata/prelude.sh
var prelude string

//go:embed testdata/oncegate.yml
var configuration string

func TestMain(m *testing.M) {
	testscript.Main(m, withCurl(map[string]func(){
		"oncegate": func() { os.Exit(cli.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) },
		"run-sql":  runSQL,
	}))
}

// runSQL runs the statements of its only argument, and rolls them back unless the second argument
// is "commit".
func runSQL() {
	ctx := context.Background()
	err := func() error {
		conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if _, err := tx.Exec(ctx, os.Args[1]); err != nil || len(os.Args) < 3 {
			return err
		}
		return tx.Commit(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mostNotRun is how many blocks of all pages together may be marked as not run. Most of them need systemd, a cluster, a container engine or a published version.
const mostNotRun = 10

// Every command of README.md and docs runs. Each page runs separately in an empty directory: pages
// of the tour with a development process, and guides with a server that uses the configuration in
// testdata. A console block must show what its commands print.
func TestCommandsRun(t *testing.T) {
	t.Parallel()
	notRun, ran := 0, 0
	for path, content := range pages(t) {
		blocks := blocksOf(content)
		runnable := 0
		for _, b := range blocks {
			switch {
			case b.notRun != "":
				notRun++
			case b.language == "sh" || b.language == "console" || b.language == "sql":
				runnable++
			case b.language == "" || b.language == "bash" || b.language == "shell":
				t.Errorf("%s:%d: a block of %q is not checked; say sh, console, sql, yaml or go", path, b.line, b.language)
			}
		}
		ran += runnable
		if runnable == 0 || !strings.HasPrefix(path, "docs/") && path != "README.md" {
			continue
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			runPage(t, path, blocks)
		})
	}
	if notRun > mostNotRun {
		t.Errorf("%d blocks are not run, more than %d", notRun, mostNotRun)
	}
	if ran < 30 {
		t.Errorf("only %d blocks were found", ran)
	}
}

func runPage(t *testing.T, path string, blocks []block) {
	t.Helper()
	directory := t.TempDir()
	world := worldOf(path)
	url, schema := inboxtest.EmptySchema(t)
	if strings.HasPrefix(path, "docs/recipes/") {
		url, _ = inboxtest.Schema(t) // a database of its own, because recipes make schemas with equal names
	}
	target := targetServer(t)
	recipes, err := filepath.Abs(filepath.Join(docs.Root, "docs/recipes"))
	if err != nil {
		t.Fatal(err)
	}
	list := httptest.NewServer(listingtest.Senders()[0].Handler(&listingtest.API{})) // Stripe's
	t.Cleanup(list.Close)
	script := prelude + "\n" + world + "\n"
	var expected []string
	variables := map[string]bool{}
	for _, b := range blocks {
		if b.notRun != "" {
			continue
		}
		for _, m := range assignment.FindAllStringSubmatch(b.setup, -1) {
			variables[m[1]] = true
		}
		text := placeholder.ReplaceAllStringFunc(b.text, func(s string) string {
			if name := strings.Trim(s, "<>"); variables[name] {
				return `"$` + name + `"`
			}
			return s
		})
		if b.language != "sh" && b.language != "console" && b.language != "sql" {
			continue
		}
		script += fmt.Sprintf("at='%s:%d, setup'\n%s\nat='%s:%d'\n", path, b.line, b.setup, path, b.line)
		switch {
		case b.language == "sql":
			keep := ""
			if b.commit {
				keep = " commit"
			}
			script += "run-sql '" + strings.ReplaceAll(strings.NewReplacer("oncegate.emit(", schema+".emit(", "SCHEMA oncegate", "SCHEMA "+schema).Replace(text), "'", `'\''`) + "'" + keep + "\n"
		case b.language == "console":
			for i, part := range strings.Split("\n"+text, "\n$ ")[1:] {
				command, output, _ := strings.Cut(part, "\n")
				script += fmt.Sprintf("at='%s:%d, command %d'\n{ %s; } > \"$HOME/output.%d\" 2>&1\n", path, b.line, i+1, stand(command), len(expected))
				expected = append(expected, output)
			}
		case b.background:
			script += "start " + strings.TrimSpace(text) + "\n"
		case b.exit != "":
			script += "exits " + b.exit + " " + strings.TrimSpace(text) + "\n"
		default:
			script += text
		}
	}
	script = strings.NewReplacer("postgres://oncegate:...@db:5432/oncegate", "'"+url+"'", "/run/secrets/", directory+"/secrets/").Replace(script)
	prepare(t, directory, strings.Replace(configuration, "LIST_OF_EVENTS", list.URL, 1))
	programs, err := devpg.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{
		"PATH": os.Getenv("PATH") + string(os.PathListSeparator) + programs.Dir, "HOME": directory, "USER": "ann", "NO_COLOR": "1", "GORACE": "atexit_sleep_ms=0",
		"DATABASE_URL": url, "ONCEGATE_SCHEMA": schema, "TARGET": target,
		"RECIPES": recipes, "SMTP_URL": "smtp://" + effecttest.NewMailServer(t, nil, nil, false).Address,
		"STRIPE_SECRET": "whsec_stripe_value", "STRIPE_API_KEY": listingtest.Key, "AGENT_SECRET": "agent-secret-value", "ORDERS_SECRET": "whsec_b25jZWdhdGUtZGV2ZWxvcG1lbnQtc2VjcmV0LTMy",
	}
	for name, variable := range map[string]string{"ONCEGATE_PUBLIC": "ONCEGATE", "ONCEGATE_ADMIN": ""} {
		address, err := rig.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		environment[name] = address
		if variable != "" {
			environment[variable] = "http://" + address
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-c", script)
	command.Dir = directory
	// At a deadline the shell stops its server, as it does at its own end.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 30 * time.Second
	for name, value := range environment {
		command.Env = append(command.Env, name+"="+value)
	}
	if path == goRecipe {
		command.Env = append(command.Env, goCaches(t)...)
	}
	// A pg_dump that is unpacked and not installed needs its libraries.
	command.Env = append(command.Env, slices.DeleteFunc(programs.Env(), func(s string) bool { return !strings.HasPrefix(s, "LD_LIBRARY_PATH=") })...)
	if out, err := command.CombinedOutput(); err != nil {
		for i := range expected { // what the last command printed says why
			if text, err := os.ReadFile(filepath.Join(directory, fmt.Sprintf("output.%d", i))); err == nil {
				out = append(out, text...)
			}
		}
		t.Fatalf("%v\n%s", err, out)
	}
	for i, want := range expected {
		got, err := os.ReadFile(filepath.Join(directory, fmt.Sprintf("output.%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := steady(string(got)), steady(want); got != want {
			t.Errorf("a command prints\n%s\nand the page shows\n%s", got, want)
		}
	}
}

// goRecipe is the recipe that is built where its module is.
const goRecipe = "docs/recipes/go-service.md"

// goCaches returns the variables with which go finds what it has compiled, because HOME is another one.
func goCaches(t *testing.T) (out []string) {
	t.Helper()
	names := []string{"GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY"}
	values, err := exec.CommandContext(t.Context(), "go", append([]string{"env"}, names...)...).Output() // a line for each
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range strings.Split(string(values), "\n")[:len(names)] {
		out = append(out, names[i]+"="+value)
	}
	return out
}

var (
	assignment  = regexp.MustCompile(`\b([a-z]+)=`)
	placeholder = regexp.MustCompile(`<[a-z]+>`)
)

// worldOf returns the commands that prepare the processes for a page.
func worldOf(path string) string {
	switch path {
	case "README.md", "docs/tour.md", "docs/guides/local-development.md":
		return "develop"
	case "docs/guides/first-source.md": // it starts its own
		return "rm oncegate.yml; unset DATABASE_URL STRIPE_SECRET"
	}
	if path == goRecipe {
		return `unset ONCEGATE_SCHEMA; cd "$RECIPES/go-service"`
	}
	if recipe, ok := strings.CutPrefix(path, "docs/recipes/"); ok { // it has a configuration, and its run starts a server
		return `unset ONCEGATE_SCHEMA; cp -R "$RECIPES" recipes; cd recipes/` + strings.TrimSuffix(recipe, ".md")
	}
	return "oncegate migrate up 2>/dev/null; start oncegate serve"
}

// stand replaces a command that cannot run inside a test: the script that starts the development
// process, which is already running.
func stand(command string) string {
	if command == "./scripts/run" {
		return "sed -n '/DEVELOPMENT MODE/,/logins link$/p' dev.log"
	}
	return command
}

// prepare writes the files that the pages expect in their directory, with the configuration of the server.
func prepare(t *testing.T, directory, configuration string) {
	t.Helper()
	program, err := exec.LookPath("oncegate")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Abs(filepath.Join(docs.Root, "scripts"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin", "secrets"} {
		if err := os.Mkdir(filepath.Join(directory, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"bin/oncegate": program, "scripts": scripts} {
		if err := os.Symlink(to, filepath.Join(directory, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{"oncegate.yml": configuration, "secrets/stripe": "whsec_stripe_value\n"} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// targetServer starts the target of the guides: /bank never knows what it did, and /billing answers
// with the status that was set last (PUT /billing/503).
func targetServer(t *testing.T) string {
	t.Helper()
	var status atomic.Int64
	status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			var wanted int64
			if _, err := fmt.Sscanf(r.URL.Path, "/billing/%d", &wanted); err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			status.Store(wanted)
		case r.URL.Path == "/bank":
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(int(status.Load()))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// steady removes the parts of an output that change from run to run.
func steady(text string) string {
	for _, change := range []struct{ pattern, with string }{
		{`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`, "ID"},
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ`, "TIME"},
		{`127\.0\.0\.1:\d+`, "ADDRESS"},
		{`link=[\w-]{43}`, "link=CODE"},
		{`(\./)?bin/oncegate `, "oncegate "}, // in a test the program has no path
		{`(?m) +\d+\.\d$`, " MS"},
		{` +`, " "},
		{`(?m) $`, ""},
	} {
		text = regexp.MustCompile(change.pattern).ReplaceAllString(text, change.with)
	}
	return strings.TrimSpace(text)
}

// The comparison covers the output of the commands, and steady does not hide differences that
// matter.
func TestSteadyKeepsWhatMatters(t *testing.T) {
	t.Parallel()
	const line = "1  200     recorded  evt_demo  0199a3c4-58f1-7c1e-9d40-5b1c0f9a2f11  7.5\n"
	if got := steady(line); got != "1 200 recorded evt_demo ID MS" {
		t.Errorf("%q", got)
	}
	if steady(line) == steady(strings.Replace(line, "recorded", "duplicate", 1)) {
		t.Error("another outcome is not seen")
	}
}
