package jobs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// One sweep brings back all times that were written while the database's clock was an hour ahead, in every state,
// and changes no other time.
func TestSweepPullsBackWhatAWrongClockPutOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{once: {Mode: sequence.Contiguous, Patience: 10 * time.Minute}}
	const attempt = `INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome)
		VALUES ($1, 1, 1, 'initial', 'n', now() + $2::interval, now() + $2::interval, 'retry')`
	cases := map[string]struct {
		route   string
		change  []string // $1 is the effect, $2 how far the clock was ahead
		ahead   string
		atMost  time.Duration
		atLeast time.Duration
	}{
		"retry, whose attempt ended ahead": {repeatable, []string{attempt, `UPDATE effect SET state = 'retry', attempts = 1, next_at = now() + $2::interval + interval '2 min' WHERE id = $1`},
			"1 h", 2 * time.Minute, time.Minute},
		"retry, beyond every policy": {repeatable, []string{`UPDATE effect SET state = 'retry', attempts = 1, next_at = now() + $2::interval WHERE id = $1`}, "30 h", 24 * time.Hour, 23 * time.Hour},
		"retry, that its target put off for long": {repeatable, []string{`UPDATE effect SET state = 'retry', attempts = 1, next_at = now() + $2::interval WHERE id = $1`},
			"20 h", 20 * time.Hour, 19 * time.Hour},
		"pending, recorded ahead": {repeatable, []string{`UPDATE river_job SET created_at = now() + $2::interval, scheduled_at = now() + $2::interval WHERE id = (SELECT job_id FROM effect WHERE id = $1)`,
			`UPDATE effect SET next_at = now() + $2::interval WHERE id = $1`}, "1 h", 0, -time.Minute},
		"pending, recorded ahead, and its job began a moment later": {repeatable, []string{`UPDATE river_job SET created_at = now() + $2::interval, attempted_at = now() + $2::interval + interval '5 ms',
			state = 'scheduled', scheduled_at = now() + $2::interval WHERE id = (SELECT job_id FROM effect WHERE id = $1)`,
			`UPDATE effect SET next_at = now() + $2::interval WHERE id = $1`}, "1 h", 0, -time.Minute},
		"pending, put off ahead": {repeatable, []string{`UPDATE river_job SET attempted_at = now() + $2::interval, state = 'scheduled', scheduled_at = now() + $2::interval WHERE id = (SELECT job_id FROM effect WHERE id = $1)`,
			`UPDATE effect SET next_at = now() + $2::interval + interval '20 s' WHERE id = $1`}, "1 h", 20 * time.Second, 10 * time.Second},
		"pending, and the process died that began its job when it was due": {repeatable, []string{`UPDATE river_job SET attempted_at = now() + $2::interval + interval '300 ms', state = 'running' WHERE id = (SELECT job_id FROM effect WHERE id = $1)`,
			`UPDATE effect SET next_at = now() + $2::interval WHERE id = $1`}, "1 h", 0, -time.Minute},
		"retry, whose job found the clock right": {repeatable, []string{`UPDATE river_job SET attempted_at = now() + $2::interval + interval '300 ms', state = 'scheduled', scheduled_at = now() + $2::interval WHERE id = (SELECT job_id FROM effect WHERE id = $1)`,
			`UPDATE effect SET state = 'retry', attempts = 1, next_at = now() + $2::interval WHERE id = $1`}, "1 h", 0, -time.Minute},
		"retry, put off by the right clock after its job began ahead": {repeatable, []string{`UPDATE river_job SET attempted_at = now() + $2::interval, state = 'scheduled', scheduled_at = now() + $2::interval WHERE id = (SELECT job_id FROM effect WHERE id = $1)`,
			`UPDATE effect SET state = 'retry', attempts = 1, next_at = now() + $2::interval - interval '50 min' WHERE id = $1`}, "1 h", 10 * time.Minute, 9 * time.Minute},
		"pending, far behind others of its target": {repeatable, []string{`UPDATE effect SET next_at = now() + $2::interval WHERE id = $1`}, "5 h", 5 * time.Hour, 4 * time.Hour},
		"claimed ahead": {repeatable, []string{`UPDATE river_job SET state = 'running', attempted_at = now() + $2::interval WHERE id = (SELECT job_id FROM effect WHERE id = $1)`,
			`UPDATE effect SET state = 'claimed', lease_token = gen_random_uuid(), attempts = 1, lease_until = now() + $2::interval + interval '30 s', next_at = now() + $2::interval + interval '30 s' WHERE id = $1`},
			"1 h", 30 * time.Second, 20 * time.Second},
		"claimed in a chain": {repeatable, []string{`UPDATE effect SET state = 'claimed', lease_token = gen_random_uuid(), attempts = 1, lease_until = now() + $2::interval, next_at = now() + $2::interval WHERE id = $1`},
			"1 h", 11 * time.Minute, 10 * time.Minute},
		"held behind a gap": {once, []string{`UPDATE effect SET state = 'held', next_at = now() + $2::interval + interval '10 min' WHERE id = $1`}, "1 h", 10 * time.Minute, 9 * time.Minute},
	}
	ids := map[string]inbox.ID{}
	for name, c := range cases {
		id := b.admit(c.route, 1)[0]
		ids[name] = id
		// In one transaction, so that now() is the same time in all of them.
		err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			for _, sql := range c.change {
				if _, err := tx.Exec(t.Context(), sql, id, c.ahead); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	b.exec(`INSERT INTO stream (route_id, key_hash, gap_since) VALUES ($1, sha256('k'), now() + interval '1 h')`, b.routes[once])
	store := b.store("sweeper")
	pulled, err := store.PullBack(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		var wait float64
		if err := b.pool.QueryRow(t.Context(), `SELECT extract(epoch FROM next_at - now())::float8 FROM effect WHERE id = $1 AND (lease_until IS NULL OR lease_until = next_at)`, ids[name]).Scan(&wait); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := time.Duration(wait * float64(time.Second)); got > c.atMost || got < c.atLeast {
			t.Errorf("%s: due in %s, want from %s to %s", name, got, c.atLeast, c.atMost)
		}
	}
	if n := b.count(`SELECT count(*) FROM stream WHERE gap_since > now()`); n != 0 {
		t.Error("the gap begins later than now")
	}
	if want := len(cases) - 3 + 1; pulled != want || store.PulledBack() != uint64(want) { // three are as they should be, and there is the gap
		t.Errorf("%d were pulled back, and %d counted, want %d", pulled, store.PulledBack(), want)
	}
	if again, err := store.PullBack(t.Context()); err != nil || again != 0 {
		t.Errorf("the second call pulled back %d, %v", again, err)
	}
	b.exec(`INSERT INTO river_leader (elected_at, expires_at, leader_id) VALUES (now() + interval '1 h', now() + interval '1 h', 'dead') ON CONFLICT (name) DO UPDATE SET expires_at = excluded.expires_at`)
	b.sweep(b.sweeper(nil))
	if n := b.count(`SELECT count(*) FROM river_leader`); n != 0 {
		t.Error("a leader that died still leads for an hour")
	}
	if n := b.count(`SELECT count(*) FROM effect e JOIN river_job j ON j.id = e.job_id WHERE e.next_at <= now() AND j.state = 'available' AND j.scheduled_at <= now()`); n != 4 {
		t.Errorf("%d of what is due has a job that wakes it, want 4: %s", n, fmt.Sprint(ids))
	}
}

// An effect that was put off while the database's clock was an hour ahead is due as soon as its job is, which a process
// scheduled by its own clock. A job that runs early because its process died, or that is not the effect's own, keeps the
// effect waiting.
func TestAJobThatIsDueMakesItsEffectDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 3)
	due, waits, foreign := ids[0], ids[1], ids[2]
	b.exec(`UPDATE effect SET next_at = now() + interval '1 h'`)
	job := b.count(`SELECT job_id FROM effect WHERE id = $1`, foreign)
	b.exec(`UPDATE effect SET job_id = job_id + 1000000 WHERE id = $1`, foreign)
	b.exec(`UPDATE river_job SET attempt = 1, attempted_at = now(), attempted_by = '{dead}' WHERE id = (SELECT job_id FROM effect WHERE id = $1)`, waits)
	b.client(jobs.Config{Senders: senders(&sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result { return effect.Result{Outcome: effect.Done} }})})
	b.eventuallyState(due, inbox.EffectDone)
	b.eventually("the other job to be put off", func() bool {
		return b.count(`SELECT count(*) FROM river_job j JOIN effect e ON e.job_id = j.id WHERE e.id = $1 AND j.state = 'scheduled' AND j.scheduled_at > now() + interval '50 min'`, waits) == 1
	})
	b.eventually("the job of another effect to be put off once", func() bool {
		return b.count(`SELECT count(*) FROM river_job WHERE id = $1 AND state = 'scheduled' AND scheduled_at > now() + interval '50 min' AND (metadata->>'snoozes')::int = 1`, job) == 1
	})
	for _, id := range []inbox.ID{waits, foreign} {
		if r := b.row(id); r.State != "pending" || r.Attempts != 0 {
			t.Errorf("%+v, want pending without an attempt", r)
		}
	}
}
