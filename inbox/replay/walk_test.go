package replay_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/replay"
)

// buryLarge makes so many dead effects whose bodies are a megabyte each: more than the buffers of a connection hold.
func buryLarge(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	storetest.Exec(t, pool, `INSERT INTO inbox_body (class, id, headers, body)
		SELECT 'kept', md5('event ' || n)::uuid, '{}', decode(repeat(md5(n::text), 32768), 'hex') || decode(repeat(md5(n::text), 32768), 'hex') FROM generate_series(1, $1::int) n`, n)
	storetest.Exec(t, pool, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length,
			id_unsigned, suspected_replay)
		SELECT id, 1, 'evt_' || id, 'x', sha256('x'), now(), 'ok', 'kept', id, 0, 0, 1048576, false, false FROM inbox_body`)
	storetest.Exec(t, pool, `INSERT INTO effect (id, event_id, route_id, state, reason, idempotency_key, route_version)
		SELECT id, id, 1, 'dead', 'attempts_exhausted', id::text, 1 FROM inbox_event`)
}

// slowJudge looks, while it judges, for sessions of the plan that wait to be read, and for ids of the scope that a
// transaction holds.
type slowJudge struct {
	db    *pgx.Conn
	name  string
	mu    sync.Mutex
	waits []string
	asked int
}

func (j *slowJudge) Judge(ctx context.Context, r *replay.RecordedEvent) ([]replay.Judgement, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked++
	rows, err := j.db.Query(ctx, `
		SELECT left(regexp_replace(query, '\s+', ' ', 'g'), 200) FROM pg_stat_activity
		WHERE application_name = $1 AND (wait_event = 'ClientWrite' OR query LIKE '%ORDER BY e.route_id, e.sequence_key_hash%' AND xact_start IS NOT NULL)`, j.name)
	if err != nil {
		return nil, err
	}
	waits, err := pgx.CollectRows(rows, pgx.RowTo[string])
	j.waits = append(j.waits, waits...)
	var out []replay.Judgement
	for _, e := range r.Effects {
		out = append(out, replay.Judgement{Effect: e.Effect, RouteID: e.RouteID, Verdict: replay.VerdictSame})
	}
	return out, err
}

// However long the judge takes, no session of the plan waits for its output to be read, and none keeps a
// transaction open for the ids that are still to come: TCP ends a connection whose answer stays unread, and an
// open transaction delays vacuum.
func TestPlanLeavesNothingUnread(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	inboxtest.Source(t, pool, "stripe")
	const dead = 40
	buryLarge(t, pool, dead)
	judge := &slowJudge{name: "plan " + inbox.NewID(time.Now()).String()}
	var err error
	if judge.db, err = pgx.Connect(t.Context(), inboxtest.URL(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = judge.db.Close(context.WithoutCancel(t.Context())) })
	cfg := pool.Config()
	cfg.ConnConfig.RuntimeParams["application_name"] = judge.name
	named, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(named.Close)
	effects, err := inbox.NewEffects(inbox.EffectsConfig{Pool: named, Enqueuer: storetest.Queue(), Node: "test"})
	if err != nil {
		t.Fatal(err)
	}
	replays, err := replay.New(replay.Config{Pool: named, Store: effects, Judge: judge, Page: 30})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := replays.Plan(t.Context(), replay.PlanRequest{Scope: replay.Scope{All: true}, Actor: "ann"})
	if err != nil || plan.Summary.ToDo != dead || judge.asked != dead {
		t.Fatalf("%v: %+v; judged %d", err, plan, judge.asked)
	}
	if slices.Sort(judge.waits); len(judge.waits) > 0 {
		t.Errorf("%d times a session waited while the judge was at work: %v", len(judge.waits), slices.Compact(judge.waits))
	}
	for _, conn := range named.AcquireAllIdle(t.Context()) {
		var left int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_cursors WHERE is_holdable`).Scan(&left); err != nil || left > 0 {
			t.Errorf("a connection keeps %d lists of ids (%v)", left, err)
		}
		conn.Release()
	}
}
