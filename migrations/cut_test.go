package migrations_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// A migrator that dies at any message that it sends, before or after the server receives the
// message, leaves a schema that the next migrator can continue with, even while another one runs.
func TestMigratorDiesAnywhere(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	before := dumped(t, pool)
	table := [2]string{
		says(migrations.Version) + "CREATE TABLE later (a int); INSERT INTO later SELECT generate_series(1, 100); ALTER TABLE node ADD COLUMN later int",
		"ALTER TABLE node DROP COLUMN later; DROP TABLE later",
	}
	cfg := migrations.Config{URL: url, Schema: schema}.Add(table, indexed)
	want := ""
	up := func(ctx context.Context, m *migrations.Migrator) error { return m.Up(ctx) }
	down := func(ctx context.Context, m *migrations.Migrator) error { return m.DownTo(ctx, migrations.Version) }
	// dies makes one migrator die at message n, with another one running at the same time, and
	// reports whether the first one got that far.
	dies := func(n int, after bool, do func(context.Context, *migrations.Migrator) error) bool {
		cut := &inboxtest.Cut{}
		cut.Arm(n, after)
		var beside sync.WaitGroup
		var other error
		if n%2 == 0 {
			beside.Go(func() { other = do(context.WithoutCancel(t.Context()), migrator(t, cfg)) })
		}
		err := do(t.Context(), migrator(t, cfg.Dial(cut.Dial)))
		beside.Wait()
		status, readErr := migrations.Read(t.Context(), pool)
		if readErr != nil || status.Current < migrations.Version || status.Current > migrations.Version+2 {
			t.Fatalf("dead at message %d (after: %t): %+v, %v", n, after, status, readErr)
		}
		if other != nil && !taken(status, other) {
			t.Errorf("beside one that died at message %d: %v", n, other)
		}
		if !cut.Struck() && err != nil && !taken(status, err) {
			t.Errorf("nothing was cut: %v", err)
		}
		return cut.Struck()
	}
	died := 0
	for _, after := range []bool{false, true} {
		for n, more := 1, true; more; n++ {
			if more = dies(n, after, up); more {
				died++
			}
			if err := up(t.Context(), migrator(t, cfg)); err != nil {
				t.Fatalf("up after one that died at message %d (after: %t): %v", n, after, err)
			}
			if made := dumped(t, pool); want == "" {
				want = made
			} else if made != want {
				t.Fatalf("up after one that died at message %d (after: %t) makes\n%s\n--- want ---\n%s", n, after, diff(made, want), diff(want, made))
			}
			if more = dies(n, after, down) || more; more {
				died++
			}
			if status, err := migrations.Read(t.Context(), pool); err != nil {
				t.Fatal(err)
			} else if status.Current > migrations.Version {
				// The server may still carry out what the dead migrator sent last, and this one then finds it done.
				err := down(t.Context(), migrator(t, cfg))
				now, readErr := migrations.Read(t.Context(), pool)
				if readErr != nil || err != nil && !taken(now, err) {
					t.Fatalf("down after one that died at message %d (after: %t): %v, %v", n, after, err, readErr)
				}
			}
			if left := dumped(t, pool); left != before {
				t.Fatalf("down after one that died at message %d (after: %t) leaves\n%s\n--- want ---\n%s", n, after, diff(left, before), diff(before, left))
			}
		}
	}
	if died < 40 {
		t.Errorf("%d deaths, want some at every step", died)
	}
	t.Logf("%d deaths", died)
}

// taken reports whether the error means that there was nothing left to revert.
func taken(status migrations.Status, err error) bool {
	none := fmt.Sprintf("it is at %d, and %d is no version below that", migrations.Version, migrations.Version)
	return status.Current == migrations.Version && strings.Contains(err.Error(), none)
}
