package migrations_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// dumped returns all objects in the schema except partitions, in order.
func dumped(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	text, err := migrations.Catalog(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)

	first := dumped(t, pool)
	if !strings.Contains(first, "inbox_event_key UNIQUE (source_id, event_id)") {
		t.Errorf("the gate's constraint is not in the schema:\n%s", first)
	}
	if strings.Contains(first, "USING gin") || strings.Contains(first, "river_job_kind ") {
		t.Errorf("River's list indexes are still there:\n%s", first)
	}
	if err := migrations.Down(t.Context(), url, schema); err != nil {
		t.Fatal(err)
	}
	if left := dumped(t, pool); left != "" {
		t.Errorf("down to zero left:\n%s", left)
	}
	if err := migrations.Down(t.Context(), url, schema); err != nil {
		t.Errorf("down on an empty schema: %v", err)
	}
	if err := migrations.Up(t.Context(), url, schema); err != nil {
		t.Fatal(err)
	}
	if second := dumped(t, pool); second != first {
		t.Errorf("up, down, up gives another schema:\n%s\n--- was ---\n%s", second, first)
	}
	if err := migrations.Validate(t.Context(), pool); err != nil {
		t.Errorf("Validate after up: %v", err)
	}
}

// A migration beyond Version would never be applied.
func TestVersionIsTheLastFile(t *testing.T) {
	t.Parallel()
	last := fmt.Sprintf("sql/%06d_", migrations.Version)
	files, err := filepath.Glob("sql/*.up.sql") // by name, and so by version
	if err != nil || len(files) != migrations.Version || !strings.HasPrefix(files[len(files)-1], last) {
		t.Errorf("the files are %q, %v; want the last to be %s..., and %d of them", files, err, last, migrations.Version)
	}
}

func TestFourConcurrentUps(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.EmptySchema(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = migrations.Up(context.WithoutCancel(t.Context()), url, schema) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("up %d: %v", i, err)
		}
	}
	if err := migrations.Validate(t.Context(), inboxtest.Open(t, url, schema, session.PoolAdmin, 2)); err != nil {
		t.Error(err)
	}
}

func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ sql, want string }{
		"older":        {`UPDATE oncegate_migration SET version = 1`, fmt.Sprintf("it is at 1, this binary needs %d: run `oncegate migrate up`", migrations.Version)},
		"newer":        {`UPDATE oncegate_migration SET version = 99`, fmt.Sprintf("it is at 99, this binary knows %d: run a newer oncegate", migrations.Version)},
		"river older":  {`DELETE FROM river_migration WHERE version = 8`, "River's tables are at 7, this binary needs 8: run `oncegate migrate up`"},
		"river newer":  {`INSERT INTO river_migration (line, version) VALUES ('main', 9)`, "River's tables are at 9, this binary knows 8: run a newer oncegate"},
		"no migration": {`DROP TABLE oncegate_migration`, fmt.Sprintf("it is at 0, this binary needs %d: run `oncegate migrate up`", migrations.Version)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := inboxtest.Pool(t)
			if _, err := pool.Exec(t.Context(), test.sql); err != nil {
				t.Fatal(err)
			}
			err := migrations.Validate(t.Context(), pool)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Validate gave %v, want %q", err, test.want)
			}
		})
	}
}

// TestConstraintsAreNamed checks that no constraint has a generated name, because the names of
// constraints are part of the API.
func TestConstraintsAreNamed(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	rows, err := pool.Query(t.Context(), `SELECT conname FROM pg_constraint
		WHERE connamespace = current_schema()::regnamespace AND conrelid::regclass::text NOT LIKE 'river%' AND conname ~ '(_check[0-9]*|[0-9])$'`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		t.Errorf("constraint %s has a name that PostgreSQL gave", name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
