package drill_test

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// TestDrillHolds runs a short drill with every fault against the binary. Everything must hold, and nothing may be left.
func TestDrillHolds(t *testing.T) { //nolint:paralleltest // it needs the machine for itself
	database, own := inboxtest.EmptySchema(t)
	pool := inboxtest.Open(t, database, own, session.PoolAdmin, 1)
	binary := filepath.Join(t.TempDir(), "oncegate")
	if err := lab.Build(t.Context(), "./cmd/oncegate", binary); err != nil {
		t.Fatal(err)
	}
	report, err := drill.Run(lab.TestContext(t), drill.Options{
		Database: database, Binary: binary, Length: 8 * time.Second, Seed: 1, Rate: 40, Nodes: 2, Faults: drill.Faults(), Log: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range invariant.Violations(report.Invariants) {
		t.Error(v)
	}
	t.Logf("%+v, faults %v", report.Sent, report.Faults)
	for i := range report.Invariants {
		if r := &report.Invariants[i]; r.Checked == 0 {
			t.Errorf("%s compared nothing", r.Name)
		}
	}
	var left int
	const countSchemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'oncegate_drill_' || $1"
	if err := pool.QueryRow(t.Context(), countSchemas, report.Run).Scan(&left); err != nil || left > 0 || report.Schema != "" {
		t.Errorf("%d schemas are left (%v), and the report says %q", left, err, report.Schema)
	}
}

// TestDrillNeedsTheRightToCreateASchema names a role that may not: the drill makes nothing and says what is missing.
func TestDrillNeedsTheRightToCreateASchema(t *testing.T) {
	t.Parallel()
	owner, schema := inboxtest.EmptySchema(t)
	pool := inboxtest.Open(t, owner, schema, session.PoolAdmin, 1)
	guest := schema + "_guest"
	if _, err := pool.Exec(t.Context(), "CREATE ROLE "+guest+" LOGIN PASSWORD 'guest'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pool.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+guest) })
	u, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(guest, "guest")
	_, err = drill.Run(t.Context(), drill.Options{Database: u.String(), Binary: "none", Length: time.Second, Rate: 1, Nodes: 1})
	if !errors.Is(err, drill.ErrRight) {
		t.Errorf("got %v, want ErrRight", err)
	}
}
