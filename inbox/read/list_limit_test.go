package read_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/session"
)

// afterRead calls do once, when the first statement that reads rows of events has ended since it was armed.
type afterRead struct {
	armed atomic.Bool
	do    func()
}

type isRead struct{}

func (a *afterRead) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, isRead{}, strings.Contains(q.SQL, "v.received_at"))
}

func (a *afterRead) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if reads, _ := ctx.Value(isRead{}).(bool); reads && a.armed.CompareAndSwap(true, false) {
		a.do()
	}
}

// A statement that takes longer than the windows before it ends with the budget, and the page says how far it got.
// Here a lock keeps every statement behind the first window from its rows for good.
func TestSearchEndsWithAStatementThatHangs(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	admin := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	inboxtest.Source(t, admin, "stripe")
	storetest.Crowd(t, admin)
	lists, err := session.OpenPool(t.Context(), url, schema, session.PoolList, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer lists.Close()
	lock, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	tracer := &afterRead{do: func() {
		if _, err := lock.Exec(t.Context(), `LOCK TABLE inbox_event IN ACCESS EXCLUSIVE MODE`); err != nil {
			t.Error(err)
		}
	}}
	cfg := lists.Config()
	cfg.ConnConfig.Tracer = tracer
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET statement_timeout = 0; SET lock_timeout = 0`)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := read.NewLister(pool)
	// Statements are prepared once, which would wait for the lock as well.
	if page, err := l.WithBudget(time.Minute).Events(ctx, read.EventFilter{Type: "none"}); err != nil || page.SearchedTo != nil {
		t.Fatalf("%+v, %v", page, err)
	}
	tracer.armed.Store(true)
	page, err := l.WithBudget(4*time.Second).Events(ctx, read.EventFilter{Type: "none"})
	if err != nil || page.SearchedTo == nil || page.Next == "" {
		t.Errorf("a list whose second window hangs gave %+v, %v; want a page that says how far it got", page, err)
	}
	if tracer.armed.Load() {
		t.Error("no statement met the lock")
	}
	if _, err := pool.Exec(ctx, `SELECT`); err != nil {
		t.Errorf("the connection is not good any more: %v", err)
	}
}
