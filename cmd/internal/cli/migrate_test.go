package cli_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/migrations"
)

// A migration that waits for a lock names the holder. It exits with 1 when its time is up, and with
// 75 when a signal stops it. In both cases the schema is unchanged.
func TestMigrateUpEndsWaiting(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "oncegate")
	if err := lab.Build(t.Context(), "./cmd/oncegate", program); err != nil {
		t.Fatal(err)
	}
	url, schema := inboxtest.Schema(t)
	m, err := migrations.New(migrations.Config{URL: url, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DownTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["search_path"], cfg.RuntimeParams["application_name"] = schema, "a long report"
	holder, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.WithoutCancel(t.Context()))
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT FROM river_job"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		wait   string
		signal os.Signal
		code   int
		says   string
	}{
		"the time is up": {"3s", nil, 1, "has the lock: nothing is half done"},
		"SIGTERM":        {"10m", syscall.SIGTERM, 75, "stopped: the migration under way was rolled back"},
		"SIGINT":         {"10m", syscall.SIGINT, 75, "stopped: the migration under way was rolled back"},
	} {
		var said bytes.Buffer
		told, pipe, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program, "migrate", "up", "--lock-wait", want.wait)
		cmd.Env, cmd.Stderr = []string{"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema}, pipe
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = pipe.Close()
		first := make([]byte, 4096)
		n, _ := told.Read(first) // it names the session for which it waits
		said.Write(first[:n])
		if want.signal != nil {
			if err := cmd.Process.Signal(want.signal); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = said.ReadFrom(told)
		_ = told.Close()
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != want.code || !strings.Contains(said.String(), want.says) || !strings.Contains(said.String(), "(a long report, ") {
			t.Errorf("%s: exit code %d, want %d, and it said\n%s", name, code, want.code, said.String())
		}
	}
	pool := inboxtest.Open(t, url, schema, "admin", 1)
	if status, err := migrations.Read(t.Context(), pool); err != nil || status.Current != 1 {
		t.Errorf("the schema is at %+v, %v", status, err)
	}
}

// With --yes, going down several versions needs --from, so that a version is not taken for a number of steps.
func TestMigrateDownSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		current, version, from int
		says                   string
	}{
		{5, 4, 0, ""},
		{5, 2, 5, ""},
		{5, 2, 0, "from 5 down to 2 takes back 3 migrations (the number is a version, not a number of steps); add --from 5 if that is meant"},
		{5, 4, 7, "the schema is at 5, not at 7; nothing was changed"},
	} {
		said := ""
		if err := cli.CheckDownSteps(c.current, c.version, c.from); err != nil {
			said = err.Error()
		}
		if said != c.says {
			t.Errorf("from %d to %d with --from %d: %q, want %q", c.current, c.version, c.from, said, c.says)
		}
	}
}
