package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

func migrator(t *testing.T, cfg migrations.Config) *migrations.Migrator {
	t.Helper()
	m, err := migrations.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// says returns the directive that states which programs may run on a file's schema.
func says(oldest int) string { return fmt.Sprintf("-- oncegate:oldest %d\n", oldest) }

// A program that may run on a newer schema stays ready. One that may not reports that it must be
// replaced, also if a later migration has a lower requirement.
func TestOlderProgramStaysWhereItMay(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	cfg := migrations.Config{URL: url, Schema: schema}
	expand := [2]string{says(migrations.Version) + "ALTER TABLE node ADD COLUMN later int", "ALTER TABLE node DROP COLUMN later"}
	contract := [2]string{says(migrations.Version+1) + "CREATE TABLE later ()", "DROP TABLE later"}
	again := [2]string{says(migrations.Version) + "CREATE TABLE latest ()", "DROP TABLE latest"}

	if err := migrator(t, cfg.Add(expand)).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Validate(t.Context(), pool); err != nil {
		t.Errorf("on a schema that allows it: %v", err)
	}
	if err := migrations.Up(t.Context(), url, schema); err != nil {
		t.Errorf("up by the older program: %v", err)
	}
	for _, pairs := range [][][2]string{{expand, contract}, {expand, contract, again}} {
		if err := migrator(t, cfg.Add(pairs...)).Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("it is at %d and needs a program of version %d, this binary knows %d: run a newer oncegate",
			migrations.Version+len(pairs), migrations.Version+1, migrations.Version)
		for what, err := range map[string]error{"validate": migrations.Validate(t.Context(), pool), "up": migrations.Up(t.Context(), url, schema)} {
			if !errors.Is(err, migrations.ErrSchema) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s gave %v, want %q", what, err, want)
			}
		}
	}
	if err := migrator(t, cfg.Add(expand, contract, again)).DownTo(t.Context(), migrations.Version+1); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Validate(t.Context(), pool); err != nil {
		t.Errorf("after the newer migrations were taken back: %v", err)
	}
}

func TestOlderProgramStaysOnRiversTablesWhereItMay(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO river_migration (line, version) VALUES ('main', $1)`, migrations.RiverVersion+1); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Validate(t.Context(), pool); !errors.Is(err, migrations.ErrSchema) {
		t.Errorf("nobody says that it may: %v", err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO schema_version (tables, version, oldest) VALUES ('river', $1, $2)`, migrations.RiverVersion+1, migrations.RiverVersion); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Validate(t.Context(), pool); err != nil {
		t.Errorf("the next version says that it may: %v", err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE schema_version SET oldest = $1 WHERE tables = 'river' AND version = $1`, migrations.RiverVersion+1); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Validate(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "River's tables are at 9 and needs a program of version 9") {
		t.Errorf("the next version says that it may not: %v", err)
	}
}

// A failed file leaves no changes, and the next attempt starts from the same state.
func TestFailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	before := dumped(t, pool)
	cfg := migrations.Config{URL: url, Schema: schema}
	down := "DROP TABLE later"
	for _, failing := range []string{"SELECT 1/0", "SELECT pg_terminate_backend(pg_backend_pid())"} {
		if err := migrator(t, cfg.Add([2]string{says(migrations.Version) + "CREATE TABLE later (); " + failing, down})).Up(t.Context()); err == nil {
			t.Errorf("%s: up succeeded", failing)
		}
		status, err := migrations.Read(t.Context(), pool)
		if err != nil || status.Current != migrations.Version || dumped(t, pool) != before {
			t.Errorf("%s leaves %+v, %v, and\n%s", failing, status, err, diff(dumped(t, pool), before))
		}
	}
	if err := migrator(t, cfg.Add([2]string{"CREATE TABLE later ()", down})).Up(t.Context()); err == nil || !strings.Contains(err.Error(), "does not say which programs may run on it") {
		t.Errorf("a file that says nothing gave %v", err)
	}
	if err := migrator(t, cfg.Add([2]string{says(migrations.Version) + "CREATE TABLE later ()", down})).Up(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLossesAreNamed(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	m := migrator(t, migrations.Config{URL: url, Schema: schema}.Add([2]string{
		says(migrations.Version) + "CREATE TABLE later (a int); CREATE TABLE empty (a int); ALTER TABLE node ADD COLUMN later int; INSERT INTO later VALUES (1), (2)",
		"DROP TABLE later, empty; ALTER TABLE node DROP COLUMN later",
	}))
	if err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO node (id, name, version, roles, configuration, key_ids, key_fingerprints, started_at, heartbeat, later)
		VALUES (gen_random_uuid(), 'a', '1', '{}', '', '{}', '{}', now(), now(), 7), (gen_random_uuid(), 'b', '1', '{}', '', '{}', '{}', now(), now(), NULL)`); err != nil {
		t.Fatal(err)
	}
	losses, err := m.Losses(t.Context(), migrations.Version)
	if got, want := fmt.Sprint(losses), "[table later (2 rows) column node.later (values in 1 rows)]"; err != nil || got != want {
		t.Errorf("losses are %s, %v, want %s", got, err, want)
	}
	for version, want := range map[int]string{0: "0 is no version below that", migrations.Version + 1: "is no version below that", -3: "-3 is no version"} {
		if err := m.DownTo(t.Context(), version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("down to %d gave %v, want %q", version, err, want)
		}
	}
	if err := migrator(t, migrations.Config{URL: url, Schema: schema}).DownTo(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "use the oncegate that made it") {
		t.Errorf("down by a program without the files gave %v", err)
	}
}
