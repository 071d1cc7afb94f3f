package read_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/internal/session"
)

// askedSQL remembers the statements that a pool was asked.
type askedSQL struct {
	mu         sync.Mutex
	statements []pgx.TraceQueryStartData
}

func (a *askedSQL) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	a.add(q)
	return ctx
}

func (a *askedSQL) add(q pgx.TraceQueryStartData) {
	if strings.Contains(q.SQL, "FROM") && !strings.Contains(q.SQL, "pg_settings") {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.statements = append(a.statements, q)
	}
}

func (a *askedSQL) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A statement behind the first window of a search is sent together with the time that it has.
func (a *askedSQL) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (a *askedSQL) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	a.add(pgx.TraceQueryStartData{SQL: q.SQL, Args: q.Args})
}

func (a *askedSQL) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (a *askedSQL) take() []pgx.TraceQueryStartData {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.statements
	a.statements = nil
	return out
}

// planner has a pool for lists whose statements are remembered, and knows how they are planned.
type planner struct {
	pool            *pgxpool.Pool
	asked           *askedSQL
	generic, custom *pgxpool.Pool
}

func newPlanner(t *testing.T, url, schema string) *planner {
	t.Helper()
	p := &planner{asked: new(askedSQL), generic: inboxtest.Open(t, url, schema, session.PoolList, 1), custom: inboxtest.Open(t, url, schema, session.PoolList, 1)}
	storetest.Exec(t, p.generic, `SET plan_cache_mode = force_generic_plan`)
	cfg := p.custom.Config()
	cfg.ConnConfig.Tracer = p.asked
	var err error
	if p.pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.pool.Close)
	return p
}

// plans are the plans of a statement for any arguments and for its own.
func (p *planner) plans(t *testing.T, q pgx.TraceQueryStartData) [2]string {
	t.Helper()
	return [2]string{storetest.GenericPlan(t, p.generic, q.SQL), storetest.Explain(t, p.custom, q.SQL, q.Args...)}
}
