package devpg_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
)

// TestMain makes the test program its own keeper.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "keep" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		binaries, err := devpg.Find(ctx)
		if err == nil {
			err = shared(os.Args[2], binaries).Keep(ctx, os.NewFile(3, "ready"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func shared(dir string, binaries devpg.Binaries) devpg.Shared {
	return devpg.Shared{
		Config: devpg.Config{Dir: dir, Binaries: binaries, Volatile: true},
		Keeper: []string{os.Args[0], "keep", dir},
	}
}

// setUp returns a shared cluster that is stopped at the end of the test.
func setUp(t *testing.T) devpg.Shared {
	t.Helper()
	binaries, err := devpg.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := shared(reachableDir(t), binaries)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // the test's own context has ended by now
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

func mustStart(t *testing.T, c devpg.Shared, opts devpg.StartOptions) string {
	t.Helper()
	dsn, err := c.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

func postmasterOf(t *testing.T, dsn string) string {
	t.Helper()
	return query(t, dsn, "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)")
}

// awaitStopped polls until the cluster is not running.
func awaitStopped(t *testing.T, c devpg.Shared) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(30 * time.Second)
	for range tick.C {
		_, running, err := c.Address(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !running {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the cluster still runs though nobody needs it")
		}
	}
}

func TestSharedEndsWithItsUsers(t *testing.T) {
	t.Parallel()
	c := setUp(t)
	first, second := sleeper(t), sleeper(t)
	one := mustStart(t, c, devpg.StartOptions{Until: first.Process.Pid, Fresh: true})
	execute(t, one, "CREATE TABLE mark AS SELECT 1")
	two := mustStart(t, c, devpg.StartOptions{Until: second.Process.Pid, Fresh: true})
	if one != two {
		t.Errorf("the second start did not join the first: %s, %s", one, two)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	if got := query(t, two, "SELECT count(*)::text FROM mark"); got != "1" {
		t.Errorf("got %s", got)
	}
	if err := second.Process.Kill(); err != nil { // not reaped: a zombie needs no database either
		t.Fatal(err)
	}
	awaitStopped(t, c)
	_ = second.Wait() // killed

	third := mustStart(t, c, devpg.StartOptions{Fresh: true})
	if got := query(t, third, "SELECT count(*)::text FROM pg_class WHERE relname = 'mark'"); got != "0" {
		t.Error("a fresh cluster holds what the last one held")
	}
}

func TestSharedSurvivesKills(t *testing.T) {
	t.Parallel()
	c := setUp(t)
	dsn := mustStart(t, c, devpg.StartOptions{})
	before := postmasterOf(t, dsn)

	// If the keeper is killed, its server continues and a new keeper takes it over.
	content, err := os.ReadFile(filepath.Join(c.Config.Dir, "keeper.lock"))
	if err != nil {
		t.Fatal(err)
	}
	kill(t, strings.TrimSpace(string(content)))
	if again := mustStart(t, c, devpg.StartOptions{}); again != dsn || postmasterOf(t, again) != before {
		t.Error("the server that a killed keeper left behind was not taken over")
	}

	// If the postmaster is killed, the next start starts a new one with the same data.
	execute(t, dsn, "CREATE TABLE mark AS SELECT 'kept' AS what; CHECKPOINT")
	kill(t, before)
	awaitStopped(t, c)
	again := mustStart(t, c, devpg.StartOptions{})
	if got := query(t, again, "SELECT what FROM mark"); got != "kept" {
		t.Errorf("got %q", got)
	}
	if postmasterOf(t, again) == before {
		t.Error("the killed postmaster still answers")
	}
}

func kill(t *testing.T, number string) {
	t.Helper()
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
