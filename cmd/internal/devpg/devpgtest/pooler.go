// Package devpgtest starts what only tests need beside a database.
package devpgtest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/devpg"
)

// Pooler starts a private PgBouncer and stops it at the end of the test. Where the machine has none
// the test is skipped, unless REQUIRE_PGBOUNCER is set, as ./scripts/test does wherever it can.
func Pooler(tb testing.TB, cfg devpg.PoolerConfig) *devpg.Pooler {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	p, err := devpg.StartPooler(ctx, cfg)
	if errors.Is(err, devpg.ErrNoPooler) && os.Getenv("REQUIRE_PGBOUNCER") == "" {
		tb.Skip("there is no PgBouncer here, so what happens behind one is not tested: ./scripts/test brings it")
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return p
}
