package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// otherRole connects as a role that may do nothing but connect. What it has locked is free when the
// test ends, or when letGo is called.
func (b *bundle) otherRole() (run func(sql string, args ...any), letGo func()) {
	b.tb.Helper()
	name := "other_" + b.pool.Config().ConnConfig.Database
	b.exec(`CREATE ROLE ` + name + ` LOGIN PASSWORD 'other'`)
	b.tb.Cleanup(func() { _, _ = b.pool.Exec(context.WithoutCancel(b.tb.Context()), `DROP ROLE `+name) })
	cfg := b.pool.Config().ConnConfig.Copy()
	cfg.User, cfg.Password = name, "other"
	cfg.RuntimeParams = map[string]string{"application_name": "a stranger"}
	conn, err := pgx.ConnectConfig(b.tb.Context(), cfg)
	if err != nil {
		b.tb.Fatal(err)
	}
	let := sync.OnceFunc(func() { _ = conn.Close(context.WithoutCancel(b.tb.Context())) })
	b.tb.Cleanup(let)
	return func(sql string, args ...any) {
		b.tb.Helper()
		if _, err := conn.Exec(b.tb.Context(), sql, args...); err != nil {
			b.tb.Fatal(err)
		}
	}, let
}

// Every role of the database can send to every channel that River listens to. No message stops anything:
// no queue, and no attempt that is under way. A process also ignores a pause or a cancellation in River's
// tables, when it starts and while it runs.
func TestNobodyElseStopsTheWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	running, goOn := make(chan struct{}, 1), make(chan struct{})
	first := b.admit(once, 1)[0]
	s := &sink{answer: func(ctx context.Context, call *effect.Call) effect.Result {
		if call.Key != "key-"+first.String() {
			return effect.Result{Outcome: effect.Done}
		}
		running <- struct{}{}
		select {
		case <-ctx.Done():
			return effect.Result{Outcome: effect.Unknown, Reason: "stopped"}
		case <-goOn:
			return effect.Result{Outcome: effect.Done}
		}
	}}
	var log logtest.Buffer
	cfg := jobs.Config{Senders: senders(s), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	c := b.client(cfg)
	<-running
	send, _ := b.otherRole()
	job := b.row(first).JobID
	for _, said := range []string{
		`{"action":"pause","queue":"*"}`, `{"action":"pause","queue":"default"}`, fmt.Sprintf(`{"action":"cancel","job_id":%d,"queue":"default"}`, job),
		`{"action":"metadata_changed","queue":"default","metadata":{"paused":true}}`, `{"action":"request_resign"}`, `{"action":"resigned","leader_id":7}`, `{"queue":7}`, `not JSON`, ``,
	} {
		for _, topic := range []string{"river_control", "river_insert", "river_leadership"} {
			send(`SELECT pg_notify($1, $2)`, b.schema+"."+topic, said)
		}
	}
	work := func() {
		t.Helper()
		for range 3 {
			b.eventuallyState(b.admit(once, 1)[0], inbox.EffectDone)
		}
	}
	work()
	// What only a role with rights on River's tables can do, such as one that uses River's own console.
	other, err := river.NewClient(riverpgxv5.New(b.river), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.JobCancel(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if err := other.QueuePause(t.Context(), "*", nil); err != nil {
		t.Fatal(err)
	}
	work()
	close(goOn)
	b.eventuallyState(first, inbox.EffectDone)
	if got := b.outcomes(first); len(got) != 1 {
		t.Errorf("attempts %v, want the one that nobody cancelled", got)
	}
	b.stop(c)
	if b.count(`SELECT count(*) FROM river_queue WHERE paused_at IS NOT NULL`) == 0 {
		t.Error("the queue is not paused in River's table")
	}
	b.client(cfg) // reads the pause when it starts
	work()
	if strings.Contains(log.String(), "nmarshal") {
		t.Errorf("the log repeats what somebody sent: %s", log.String())
	}
}

// A worker that fetches nothing says so, though it sweeps and though nothing fails that it would claim.
func TestAWorkerThatBeginsNothingIsNotReady(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lease = 2 * time.Second
	var mu sync.Mutex
	var ahead time.Duration
	now := func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(ahead) }
	b.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$`)
	b.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON river_job FOR EACH ROW WHEN (NEW.state = 'running') EXECUTE FUNCTION refuse()`)
	id := b.admit(repeatable, 1)[0]
	b.exec(`UPDATE effect SET next_at = now() - interval '1 min'`)
	c := b.client(jobs.Config{SweepEvery: 20 * time.Millisecond, Now: now, Logger: slog.New(slog.DiscardHandler)})
	b.eventually("it says that nothing is begun", func() bool {
		mu.Lock()
		ahead += 100 * time.Millisecond
		mu.Unlock()
		err := c.Ready()
		return err != nil && strings.Contains(err.Error(), "has begun none")
	})
	b.exec(`DROP TRIGGER refuse ON river_job`)
	b.eventuallyState(id, inbox.EffectDone)
	b.eventually("it is ready again", func() bool { return c.Ready() == nil })
}

// Every role can take our advisory locks. Each delays at most the task that it guards:
// partitions are made and a replay runs without it; prune and the effects of the
// one key wait, and say for whom.
func TestALockOfAnotherRoleDelaysOnlyItsTask(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keys.within = time.Hour
	lock, letGo := b.otherRole()
	var log logtest.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	named := func() bool {
		return strings.Contains(log.String(), "a stranger") && strings.Contains(log.String(), "other_"+b.pool.Config().ConnConfig.Database) && strings.Contains(log.String(), "127.0.0.1")
	}

	// The key of one effect: the lock's number is in the server's view while the handler runs.
	key := make(chan int64, 1)
	handler := effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, _ effect.Event) error {
		var held int64
		err := tx.QueryRow(ctx, `SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND pid = pg_backend_pid()`).Scan(&held)
		key <- held
		return err
	})
	dead := b.admit(repeatable, 2)
	b.died()
	r := b.replays(replay.Config{})
	p := plan(t, r, everything(), replay.Options{})
	routes := b.keyed("event.type", "body.paid")
	plain := routes[b.routes[repeatable]]
	plain.Key = nil
	routes[b.routes[repeatable]] = plain
	b.client(jobs.Config{Routes: routes, Replays: r, Transactionals: map[string]effect.Transactional{within: handler}, Logger: logger})
	b.eventuallyState(b.admit(within, 1)[0], inbox.EffectDone)
	lock(`SELECT pg_advisory_lock($1)`, <-key)
	lock(`SELECT pg_advisory_lock($1, $2)`, advisory.Space, advisory.Partitions)
	lock(`SELECT pg_advisory_lock($1, hashtext($2))`, advisory.Prune, b.schema)
	lock(`SELECT pg_advisory_lock($1, hashtext($2))`, advisory.Replay, p.ID.String())

	waiting := b.admit(within, 30)
	for _, id := range b.admit(repeatable, 10) {
		b.eventuallyState(id, inbox.EffectDone)
	}
	b.eventually("the log names who has the key", named)
	if n := b.states(waiting, "pending"); n != len(waiting) {
		t.Errorf("%d of %d effects of the locked key are pending", n, len(waiting))
	}

	start(t, r, p)
	for _, id := range dead {
		b.eventuallyState(id, inbox.EffectDone)
	}

	said := len(log.String())
	pruner, err := prune.New(prune.Config{Pool: b.pool, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	if report, err := pruner.Run(t.Context(), prune.Run{}); err != nil || report.Obtained || !strings.Contains(log.String()[said:], "a stranger") {
		t.Errorf("%+v, %v; the log says %q", report, err, log.String())
	}

	var making sync.WaitGroup
	for range 4 {
		making.Go(func() {
			if err := inbox.EnsurePartitions(t.Context(), b.work, []string{"late"}, time.Now(), 3); err != nil {
				t.Error(err)
			}
		})
	}
	making.Wait()

	letGo()
	b.eventually("the effects of the key", func() bool { return b.states(waiting, "duplicate") == len(waiting) })
}
