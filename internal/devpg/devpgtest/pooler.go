// Package devpgtest starts services that only tests need in addition to a database.
package devpgtest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
)

// NeedPooler skips a test if the machine has no PgBouncer. If REQUIRE_PGBOUNCER is set, NeedPooler
// fails the test instead; ./scripts/test sets it if it can install PgBouncer.
func NeedPooler(tb testing.TB) {
	tb.Helper()
	_, err := devpg.FindPooler()
	switch {
	case err == nil:
	case os.Getenv("REQUIRE_PGBOUNCER") != "":
		tb.Fatal(err)
	default:
		tb.Skip("there is no PgBouncer here, so what happens behind one is not tested: ./scripts/test brings it")
	}
}

// Pooler starts a private PgBouncer and stops it at the end of the test. See [NeedPooler].
func Pooler(tb testing.TB, cfg devpg.PoolerConfig) *devpg.Pooler {
	tb.Helper()
	NeedPooler(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	p, err := devpg.StartPooler(ctx, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if log, err := os.ReadFile(p.LogPath()); tb.Failed() && err == nil {
			tb.Logf("PgBouncer's log ends with:\n%s", log[max(0, len(log)-4000):])
		}
		if err := p.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return p
}
