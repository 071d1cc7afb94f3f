package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// connected returns a connection of another session, which blocks a migration.
func connected(t *testing.T, url, schema, name string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["application_name"], cfg.RuntimeParams["search_path"] = name, schema
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// heard collects the lines that a migration reports.
type heard struct {
	mu    sync.Mutex
	lines []string
	first chan struct{}
}

func newHeard() *heard { return &heard{first: make(chan struct{})} }

func (h *heard) tell(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lines = append(h.lines, line); len(h.lines) == 1 {
		close(h.first)
	}
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

var wantsNode = [2]string{says(migrations.Version) + "CREATE TABLE later (); ALTER TABLE node ADD COLUMN later int", "ALTER TABLE node DROP COLUMN later; DROP TABLE later"}

// A migration that does not get a lock ends with an error that names the holder. It leaves nothing
// half done, and the sessions that were queued after it continue.
func TestLockWaitIsBounded(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	before := dumped(t, pool)
	holder := connected(t, url, schema, "a long report")
	run(t, holder, "BEGIN")
	run(t, holder, "SELECT count(*) FROM node")

	h := newHeard()
	cfg := migrations.Config{URL: url, Schema: schema, LockWait: 3 * time.Second, Tell: h.tell}.Add(wantsNode)
	err := migrator(t, cfg).Up(t.Context())
	lock, ok := errors.AsType[*migrations.LockError](err)
	if !ok || len(lock.Holders) != 1 || lock.Holders[0].PID != int32(holder.PgConn().PID()) || lock.Holders[0].Application != "a long report" {
		t.Fatalf("up gave %v, want the holder", err)
	}
	for _, want := range []string{fmt.Sprintf("waiting for a lock of migration %d", migrations.Version+1), "(a long report, role ", ", idle in transaction since 2", "has the lock: nothing is half done"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("up gave %v, want %q", err, want)
		}
	}
	if said := h.String(); !strings.Contains(said, "a long report") || !strings.Contains(said, "trying for another") {
		t.Errorf("up told %q", said)
	}
	if after := dumped(t, pool); after != before {
		t.Errorf("it left\n%s", diff(after, before))
	}

	// The migration continues by itself when the lock is free.
	h = newHeard()
	cfg.Tell, cfg.LockWait = h.tell, time.Minute
	done := make(chan error, 1)
	go func() { done <- migrator(t, cfg).Up(context.WithoutCancel(t.Context())) }()
	select {
	case <-h.first:
	case err := <-done:
		t.Fatalf("up did not wait: %v", err)
	}
	run(t, holder, "COMMIT")
	if err := <-done; err != nil {
		t.Errorf("up after the lock was free: %v", err)
	}
}

// A migrator waits for another migration, but not without limit.
func TestWaitForAnotherMigrationIsBounded(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	slow := [2]string{says(migrations.Version) + "SELECT pg_sleep(600)", "SELECT 1"}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	first := make(chan error, 1)
	go func() { first <- migrator(t, migrations.Config{URL: url, Schema: schema}.Add(slow)).Up(ctx) }()
	watcher := connected(t, url, schema, "test")
	inboxtest.Until(t, "the first migration sleeps", func() bool {
		var sleeps bool
		err := watcher.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'advisory'
			WHERE a.application_name = 'oncegate migrate' AND a.wait_event = 'PgSleep')`).Scan(&sleeps)
		return err == nil && sleeps
	})

	h := newHeard()
	err := migrator(t, migrations.Config{URL: url, Schema: schema, LockWait: time.Second, Tell: h.tell}).Up(t.Context())
	if _, ok := errors.AsType[*migrations.LockError](err); !ok || !strings.Contains(err.Error(), "waiting for another migration to end") ||
		!strings.Contains(err.Error(), "(oncegate migrate, role ") || !strings.Contains(err.Error(), ", active since ") {
		t.Errorf("the second migration gave %v", err)
	}
	if !strings.Contains(h.String(), "waiting for another migration to end: pid") {
		t.Errorf("the second migration told %q", h)
	}

	// A stop rolls the statement back before the error is returned, so that the next migrator does
	// not find it running.
	stop()
	if err := <-first; !errors.Is(err, migrations.ErrStopped) {
		t.Errorf("the stopped migration gave %v", err)
	}
	if err := migrations.Up(t.Context(), url, schema); err != nil {
		t.Errorf("after the stop: %v", err)
	}
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	if err := migrations.Validate(t.Context(), pool); err != nil {
		t.Errorf("after the stop: %v", err)
	}
}

// A migrator does not wait for migrations of other schemas.
func TestSchemasAreMigratedAtOnce(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	_, other := inboxtest.EmptySchema(t)
	ctx, stop := context.WithCancel(t.Context())
	h := newHeard()
	holder := connected(t, url, schema, "holder")
	run(t, holder, "BEGIN")
	run(t, holder, "SELECT count(*) FROM node")
	first := make(chan error, 1)
	go func() {
		first <- migrator(t, migrations.Config{URL: url, Schema: schema, Tell: h.tell}.Add(wantsNode)).Up(ctx)
	}()
	<-h.first // it has the lock of its schema, and waits
	if err := migrator(t, migrations.Config{URL: url, Schema: other, LockWait: time.Second}).Up(t.Context()); err != nil {
		t.Errorf("the other schema: %v", err)
	}
	stop()
	if err := <-first; !errors.Is(err, migrations.ErrStopped) {
		t.Errorf("the stopped migration gave %v", err)
	}
}

var indexed = [2]string{
	says(migrations.Version) + "-- oncegate:no-transaction\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS node_name_key ON node (name);\nCREATE INDEX CONCURRENTLY IF NOT EXISTS node_version_idx ON node (version);",
	"-- oncegate:no-transaction\nDROP INDEX CONCURRENTLY IF EXISTS node_version_idx;\nDROP INDEX CONCURRENTLY IF EXISTS node_name_key;",
}

// An unfinished index is rebuilt, and a complete one is kept.
func TestIndexesAreResumed(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	conn := connected(t, url, schema, "test")
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	const node = `INSERT INTO node (id, name, version, roles, configuration, key_ids, key_fingerprints, started_at, heartbeat)
		VALUES (gen_random_uuid(), 'a', '1', '{}', '', '{}', '{}', now(), now())`
	run(t, conn, node)
	run(t, conn, node)
	m := migrator(t, migrations.Config{URL: url, Schema: schema}.Add(indexed)) // other tests may have open transactions too
	if err := m.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "23505") {
		t.Fatalf("a unique index over two equal rows gave %v", err)
	}
	if left := dumped(t, pool); !strings.Contains(left, "node_name_key ON node USING btree (name) (not valid)") {
		t.Fatalf("nothing to resume is left:\n%s", left)
	}
	status, err := migrations.Read(t.Context(), pool)
	if err != nil || status.Current != migrations.Version {
		t.Errorf("the failure leaves %+v, %v", status, err)
	}
	run(t, conn, "DELETE FROM node WHERE ctid = (SELECT min(ctid) FROM node)")

	// Building an index waits for every open transaction, and the error names it.
	holder := connected(t, url, schema, "a long report")
	run(t, holder, "BEGIN")
	run(t, holder, "UPDATE node SET version = '2'")
	err = migrator(t, migrations.Config{URL: url, Schema: schema, LockWait: 2 * time.Second}.Add(indexed)).Up(t.Context())
	if _, ok := errors.AsType[*migrations.LockError](err); !ok || !strings.Contains(err.Error(), "a long report") {
		t.Errorf("an open transaction gave %v", err)
	}
	run(t, holder, "COMMIT")
	if err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	made := dumped(t, pool)
	for _, index := range []string{"node_name_key", "node_version_idx"} {
		if !strings.Contains(made, index) || strings.Contains(made, "(not valid)") {
			t.Errorf("index %s is not whole:\n%s", index, made)
		}
	}
	if err := m.DownTo(t.Context(), migrations.Version); err != nil {
		t.Fatal(err)
	}
	if left := dumped(t, pool); strings.Contains(left, "node_name_key") || strings.Contains(left, "node_version_idx") {
		t.Errorf("down leaves the indexes:\n%s", left)
	}
}
