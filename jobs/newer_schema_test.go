package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A process that must not run on a newer schema claims nothing, moves no replay and
// prunes nothing; a newer process goes on where it stands, and nothing is counted.
func TestNothingIsWorkedOnASchemaThatDoesNotFit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.admit(repeatable, 3)
	b.died()
	r := b.replays(replay.Config{})
	p := plan(t, r, everything(), replay.Options{})
	start(t, r, p)
	ids := b.admit(repeatable, 3)

	var asked atomic.Int64
	pruner, err := prune.New(prune.Config{Pool: b.pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var pruned atomic.Int64
	unfit := b.client(jobs.Config{
		Replays: r, Prune: pruner, Pruned: func(context.Context, prune.Report) { pruned.Add(1) }, SweepEvery: 50 * time.Millisecond,
		Fits: func() error { asked.Add(1); return errors.New("run a newer oncegate") },
	})
	// Every wake-up is asked for and put off: those of the effects, the replay's and prune's.
	inboxtest.Until(t, "all wake-ups were put off", func() bool {
		return b.count(`SELECT count(*) FROM river_job WHERE state IN ('available', 'scheduled') AND (metadata ? 'snoozes')`) >= len(ids)+2
	})
	if n := b.count(`SELECT count(*) FROM effect_attempt WHERE node <> 'old'`) + b.count(`SELECT count(*) FROM effect WHERE state = 'claimed'`); n != 0 || pruned.Load() != 0 {
		t.Errorf("%d attempts and claims, %d passes of prune", n, pruned.Load())
	}
	if got := b.count(`SELECT count(*) FROM replay WHERE state = 'running' AND position = 0`); got != 1 || b.count(`SELECT count(*) FROM replay_outcome`) != 0 {
		t.Errorf("the replay does not stand where it stood")
	}
	if err := unfit.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	b.client(jobs.Config{Replays: r})
	for _, id := range append(old, ids...) {
		b.eventuallyState(id, inbox.EffectDone)
	}
	inboxtest.Until(t, "the replay is done", func() bool {
		now, err := r.Status(t.Context(), p.ID)
		return err == nil && now.State == replay.Done
	})
	for _, id := range ids {
		if got := b.outcomes(id); len(got) != 1 {
			t.Errorf("attempts %v, want the one that was made", got)
		}
	}
	if asked.Load() == 0 {
		t.Error("nobody asked")
	}
}

// A statement of ours that fails because the tables changed under it is no attempt,
// though it is in the transaction of one.
func TestChangedTablesAreNoAttempt(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"42703", "42P01", "0A000", "55P03"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(within, 1)[0]
			for _, sql := range []string{
				`CREATE SEQUENCE failures`, // what it counts is not rolled back
				`CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					IF nextval('failures') = 1 THEN RAISE EXCEPTION 'the table is another one now' USING ERRCODE = '` + code + `'; END IF;
					RETURN NEW; END $$`,
				`CREATE TRIGGER fail_once BEFORE INSERT ON effect_attempt FOR EACH ROW EXECUTE FUNCTION fail_once()`,
			} {
				b.exec(sql)
			}
			b.client(jobs.Config{Transactionals: map[string]effect.Transactional{
				within: effect.HandlerFunc(func(context.Context, pgx.Tx, effect.Event) error { return nil }),
			}})
			b.eventuallyState(id, inbox.EffectDone)
			if got := b.outcomes(id); len(got) != 1 || got[0] != "done" {
				t.Errorf("attempts %v, want done alone", got)
			}
			if b.count(`SELECT last_value FROM failures`) < 2 {
				t.Error("nothing failed")
			}
		})
	}
}

// The same of a statement of the effect's own, whose plan is of before the change.
func TestPlanOfBeforeIsNoAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(within, 1)[0]
	b.exec(`CREATE TABLE theirs (a int)`)
	var calls atomic.Int64
	b.client(jobs.Config{Transactionals: map[string]effect.Transactional{
		within: effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, _ effect.Event) error {
			if calls.Add(1) > 1 {
				return nil
			}
			for _, sql := range []string{`PREPARE before AS SELECT * FROM theirs`, `EXECUTE before`, `ALTER TABLE theirs ADD COLUMN b int`, `EXECUTE before`} {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			return errors.New("the plan was taken")
		}),
	}})
	b.eventuallyState(id, inbox.EffectDone)
	if got := b.outcomes(id); len(got) != 1 || got[0] != "done" {
		t.Errorf("attempts %v, want done alone", got)
	}
}
