package jobs_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

// actScripted does what it does, and then fails as often as the script says. A sequence
// counts the attempts, since nothing of a failed one stays.
const actScripted = `
CREATE TABLE applied (event text);
CREATE SEQUENCE attempt;
CREATE TABLE script (failures bigint, code text);
CREATE FUNCTION act(doc jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO applied VALUES (doc->>'event');
	IF nextval('attempt') <= (SELECT failures FROM script) THEN
		RAISE EXCEPTION 'scripted' USING ERRCODE = (SELECT code FROM script);
	END IF;
END $$`

// An effect is settled by one of five ways: in a transaction of its own with others, in the
// one in which it acted, in one of a group that acted, and the last two in a stream. Whatever
// the way, the end of an attempt says the same and leaves the same behind: an attempt in the
// record for each that was made, no lease, no wake-up, and of the work all or nothing.
func TestEveryWayOfSettling(t *testing.T) {
	t.Parallel()
	const always = 1 << 30
	for _, way := range []struct {
		name    string
		route   string
		ordered bool
		grouped bool
	}{
		{"outside", once, false, false},
		{"inside, alone", within, false, false},
		{"inside, in a group", within, false, true},
		{"outside, in a stream", once, true, false},
		{"inside, alone, in a stream", within, true, false},
		{"inside, in a group, in a stream", within, true, true},
	} {
		for _, end := range []struct {
			name     string
			failures int64
			code     string        // of the database, for what acts inside it
			result   effect.Result // of the target, for what acts outside
			state    inbox.EffectState
			reason   reasons.Reason // the one of a target; one of the database is inside
			inside   reasons.Reason
			outcomes []string
			follower inbox.EffectState // in a stream
		}{
			{name: "done", state: inbox.EffectDone, outcomes: []string{"done"}, follower: inbox.EffectDone},
			{
				name: "done after retries", failures: 2, code: "40001", result: effect.Result{Outcome: effect.Retry, Reason: reasons.Connect},
				state: inbox.EffectDone, outcomes: []string{"retry", "retry", "done"}, follower: inbox.EffectDone,
			},
			{
				name: "dead", failures: always, code: "23514", result: effect.Result{Outcome: effect.Dead, Reason: reasons.Status4xx},
				state: inbox.EffectDead, reason: reasons.Status4xx, inside: reasons.SQL, outcomes: []string{"dead"}, follower: inbox.EffectHeld,
			},
			{
				name: "exhausted", failures: always, code: "40P01", result: effect.Result{Outcome: effect.Retry, Reason: reasons.Connect},
				state: inbox.EffectDead, reason: reasons.Exhausted, inside: reasons.Exhausted,
				outcomes: []string{"retry", "retry", "retry", "retry", "dead"}, follower: inbox.EffectHeld,
			},
			{
				name: "indeterminate", failures: always, result: effect.Result{Outcome: effect.Unknown, Reason: reasons.Timeout},
				state: inbox.EffectIndeterminate, reason: reasons.Timeout, outcomes: []string{"indeterminate"}, follower: inbox.EffectHeld,
			},
		} {
			if way.route == within && end.name == "indeterminate" {
				continue // what a transaction did is known
			}
			t.Run(way.name+"/"+end.name, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.exec(actScripted)
				failures := end.failures
				if way.grouped {
					failures *= 2 // a group that fails is no attempt: what was in it is tried alone
				}
				b.exec(`INSERT INTO script VALUES ($1, $2)`, failures, end.code)
				var ids []inbox.ID
				if way.ordered {
					b.order = map[string]sequence.Policy{way.route: {Mode: sequence.Contiguous, Start: "1"}}
					ids = b.sequenced(way.route, "order 7", "1", "2")
				} else {
					ids = b.admit(way.route, 1)
				}
				s := &sink{answer: func(ctx context.Context, call *effect.Call) effect.Result {
					var n int64
					if err := b.pool.QueryRow(ctx, `SELECT nextval('attempt')`).Scan(&n); err != nil {
						return effect.Result{Outcome: effect.Unknown, Reason: reasons.Connection}
					}
					if n <= failures {
						return end.result
					}
					if _, err := b.pool.Exec(ctx, `INSERT INTO applied VALUES ($1)`, call.Event.ID); err != nil {
						return effect.Result{Outcome: effect.Unknown, Reason: reasons.Connection}
					}
					return effect.Result{Outcome: effect.Done}
				}}
				kind, err := sql.New(sql.Config{Call: "act"})
				if err != nil {
					t.Fatal(err)
				}
				inside := map[string]effect.Transactional{within: kind}
				if !way.grouped {
					inside[within] = effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, event effect.Event) error {
						_, err := tx.Exec(ctx, `SELECT act(jsonb_build_object('event', $1::text))`, event.ID)
						return err
					})
				}
				b.client(jobs.Config{Senders: senders(s), Transactionals: inside, Logger: slog.New(slog.DiscardHandler)})
				b.eventuallyState(ids[0], end.state)
				want := end.reason
				if way.route == within {
					want = end.inside
				}
				if r := b.row(ids[0]); r.Reason != string(want) || r.Attempts != len(end.outcomes) || r.Unfinished {
					t.Errorf("%+v, want reason %q after %d attempts, and finished", r, want, len(end.outcomes))
				}
				if got := b.outcomes(ids[0]); !slices.Equal(got, end.outcomes) {
					t.Errorf("the record has the attempts %v, want %v", got, end.outcomes)
					if way.ordered {
						t.Errorf("the one behind it has the attempts %v and %+v; the script was asked %d times", b.outcomes(ids[1]), b.row(ids[1]), b.count(`SELECT last_value FROM attempt`))
					}
				}
				if n := b.count(`SELECT count(*) FROM effect WHERE id = $1 AND (lease_token IS NOT NULL OR lease_until IS NOT NULL OR next_at IS NOT NULL)`, ids[0]); n != 0 {
					t.Error("at rest it has a lease, or a time")
				}
				applied := 0
				if end.state == inbox.EffectDone {
					applied = 1
				}
				if n := b.count(`SELECT count(*) FROM applied WHERE event = $1`, ids[0].String()); n != applied {
					t.Errorf("its work is there %d times, want %d", n, applied)
				}
				if way.ordered {
					b.eventuallyState(ids[1], end.follower)
					if n := b.count(`SELECT count(*) FROM applied WHERE event = $1`, ids[1].String()); n != applied {
						t.Errorf("the work of the one behind it is there %d times, want %d", n, applied)
					}
				}
				b.eventually("no wake-up left", func() bool {
					return b.count(`SELECT count(*) FROM river_job WHERE kind = 'effect' AND state <> 'completed'`) == 0
				})
			})
		}
	}
}

// What is put off before an attempt keeps its attempts, says why, and has a time and a
// wake-up: whether the claim is committed before (outside, and in a stream) or never made.
func TestWhatIsPutOffHasATimeAndAWakeUp(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name, route string
		ordered     bool
		reason      string // what the row says
	}{
		{"outside", once, false, string(reasons.Breaker)},
		{"inside", within, false, ""}, // it was not claimed, and the row is as it was
		{"inside, in a stream", within, true, string(reasons.Breaker)},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			// One that fails opens the breaker of its target for as long as the test lasts.
			first := b.admit(way.route, 1)[0]
			s := &sink{answer: func(context.Context, *effect.Call) effect.Result {
				return effect.Result{Outcome: effect.Retry, Reason: reasons.Connect}
			}}
			reports := make(chan jobs.Report, 1000)
			b.retry = inbox.RetryPolicy{Attempts: 5, Base: time.Hour, Max: time.Hour}
			if way.ordered {
				b.order = map[string]sequence.Policy{way.route: {Mode: sequence.Contiguous, Start: "1"}}
			}
			b.client(jobs.Config{
				Senders: senders(s),
				Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(context.Context, pgx.Tx, effect.Event) error {
					return &pgconn.PgError{Severity: "ERROR", Code: "57014"}
				})},
				Targets: map[string]jobs.Target{way.route: {Failures: 1, Open: time.Hour}},
				Logger:  slog.New(slog.DiscardHandler),
				Observe: func(r jobs.Report) { reports <- r },
			})
			b.eventuallyState(first, inbox.EffectRetry)
			var second inbox.ID
			if way.ordered {
				second = b.sequenced(way.route, "order 7", "1")[0]
			} else {
				second = b.admit(way.route, 1)[0]
			}
			b.eventually("it is put off", func() bool {
				for {
					select {
					case r := <-reports:
						if r.Effect == second && r.Reason == reasons.Breaker && r.Outcome == "" && r.Attempt == 0 {
							return true
						}
					default:
						return false
					}
				}
			})
			r := b.row(second)
			if r.State != string(inbox.EffectPending) || r.Attempts != 0 || r.Reason != way.reason || len(b.outcomes(second)) != 0 {
				t.Errorf("%+v and attempts %v, want pending, %q and none", r, b.outcomes(second), way.reason)
			}
			// The report comes before the row of what was never claimed is put off.
			b.eventually("it has a time in the future, and no lease", func() bool {
				return b.count(`SELECT count(*) FROM effect WHERE id = $1 AND next_at > now() AND lease_token IS NULL`, second) == 1
			})
			b.eventually("its wake-up sleeps", func() bool {
				return b.count(`SELECT count(*) FROM river_job WHERE id = $1 AND state IN ('scheduled', 'available') AND scheduled_at > now()`, r.JobID) == 1
			})
		})
	}
}

// An attempt that fails while another transaction has the lock of its stream is an attempt all the same. It was put back as if it had not
// been made, so that an effect could fail more often than its policy allows.
func TestAFailedAttemptCountsWhileItsStreamIsLocked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{within: {Mode: sequence.Contiguous, Start: "1"}}
	id := b.sequenced(within, "order 7", "1")[0]
	waits := func() int64 {
		return int64(b.count(`SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`))
	}
	locks := make(chan pgx.Tx, 1)
	failed := false
	b.client(jobs.Config{Logger: slog.New(slog.DiscardHandler), Transactionals: map[string]effect.Transactional{
		within: effect.HandlerFunc(func(ctx context.Context, _ pgx.Tx, _ effect.Event) error {
			if failed {
				return nil
			}
			failed = true
			lock, err := b.pool.Begin(context.WithoutCancel(ctx))
			if err == nil {
				_, err = lock.Exec(ctx, `SELECT FROM stream FOR UPDATE`)
			}
			if err != nil {
				return err
			}
			locks <- lock
			return &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "40001"}
		}),
	}})
	lock := <-locks
	b.eventually("the settlement to wait for its stream", func() bool { return waits() > 0 })
	b.eventually("the settlement to give up", func() bool { return waits() == 0 })
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.eventuallyState(id, inbox.EffectDone)
	if got, want := b.outcomes(id), []string{"retry", "done"}; !slices.Equal(got, want) {
		t.Errorf("the record has the attempts %v, want %v", got, want)
	}
}
