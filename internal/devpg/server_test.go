package devpg_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
)

// reachableDir returns a temporary directory that the account that runs PostgreSQL instead of root
// can enter.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "cluster")
}

// start starts a server and stops it at the end of the test.
func start(t *testing.T, cfg devpg.Config) *devpg.Server {
	t.Helper()
	s, err := devpg.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // the test's own context has ended by now
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// query returns the first column of the first row as text.
func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var value string
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func execute(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func TestServer(t *testing.T) {
	t.Parallel()
	s := start(t, devpg.Config{Settings: map[string]string{"max_connections": "37"}})

	for setting, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "max_connections": "37", "listen_addresses": "127.0.0.1",
	} {
		if got := query(t, s.DSN(), "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s is %s, want %s", setting, got, want)
		}
	}
	address, err := url.Parse(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	if port, _ := strconv.Atoi(address.Port()); port < 1024 || port >= 32768 {
		t.Errorf("port %d is not below the ephemeral range", port)
	}
	intruder := *address
	intruder.User = url.UserPassword("postgres", "guess")
	if conn, err := pgx.Connect(t.Context(), intruder.String()); err == nil {
		_ = conn.Close(t.Context())
		t.Error("a wrong password was let in over TCP")
	}

	execute(t, s.DSN(), "CREATE TABLE kept AS SELECT 'committed' AS what")
	killed, dsn := s.PID(), s.DSN()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if alive(killed) {
		t.Errorf("process %d is still there after Kill: it was not reaped", killed)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.DSN() != dsn {
		t.Errorf("the address changed over a restart, from %s to %s", dsn, s.DSN())
	}
	if got := query(t, s.DSN(), "SELECT what FROM kept"); got != "committed" {
		t.Errorf("got %q after the crash", got)
	}
	if err := s.Restart(t.Context()); err == nil {
		t.Error("Restart took a running server for a stopped one")
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := errors.Join(s.Stop(ctx), s.Stop(ctx)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the throw-away cluster is still there: %v", err)
	}
}

func TestServerLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	other := start(t, devpg.Config{Dir: reachableDir(t), Volatile: true})
	if _, err := devpg.Start(t.Context(), devpg.Config{Dir: other.Dir()}); err == nil {
		t.Error("a second server was started on a directory in use")
	}

	mine := devpg.Config{Dir: reachableDir(t), Volatile: true}
	first := start(t, mine)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	// After kill -9 and a reboot, the number in the stale file can belong to any process, and here
	// to another cluster.
	data := filepath.Join(first.Dir(), "data-"+strconv.Itoa(first.Binaries().Major))
	stale := fmt.Sprintf("%d\n%s\n1700000000\n21000\n%s\n127.0.0.1\n  1 1\nready   \n", other.PID(), data, first.Dir())
	if err := os.WriteFile(filepath.Join(data, "postmaster.pid"), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	second := start(t, mine)
	if got := query(t, second.DSN(), "SELECT 'answers'"); got != "answers" {
		t.Errorf("got %q", got)
	}
	if got := query(t, other.DSN(), "SELECT 'untouched'"); got != "untouched" {
		t.Errorf("got %q", got)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	machine, err := devpg.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	program := func(dir, name, version string) {
		script := "#!/bin/sh\necho '" + name + " (PostgreSQL) " + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		postgres, initdb string
		chosen           bool
	}{
		"same release":          {"17.2", "17.2", true},
		"beta":                  {"19beta1", "19beta1", true},
		"initdb of another one": {"17.2", "15.18", false},
		"too old":               {"14.9", "14.9", false},
		"initdb missing":        {"17.2", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := reachableDir(t)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			program(dir, "postgres", test.postgres)
			if test.initdb != "" {
				program(dir, "initdb", test.initdb)
			}
			want := machine.Dir
			if test.chosen {
				want = dir
			}
			got, err := devpg.Find(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if got.Dir != want {
				t.Errorf("found %s, want %s", got.Dir, want)
			}
		})
	}
}

// sleeper starts a process for which a shared cluster can be started.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}
