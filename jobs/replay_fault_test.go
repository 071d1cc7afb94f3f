package jobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/replay"
)

// stepper makes one step of a replay; the museum below has wrong ones.
type stepper func(ctx context.Context, id inbox.ID) (replay.Step, error)

// makeStepper makes one on a pool.
type makeStepper func(b *bundle, pool *pgxpool.Pool) stepper

func rightSteps(b *bundle, pool *pgxpool.Pool) stepper {
	return b.replaysOn(pool, replay.Config{Chunk: 2, Store: b.storeOn(pool)}).Step
}

func (b *bundle) storeOn(pool *pgxpool.Pool) *inbox.Effects {
	b.tb.Helper()
	store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: b.queue, Node: "cut"})
	if err != nil {
		b.tb.Fatal(err)
	}
	return store
}

// dies kills the process at each message that a step sends, before it leaves and
// after it has arrived: either way an item is done, with its job, or as it was;
// and going on does each once.
func dies(tb testing.TB, newSteps makeStepper) {
	tb.Helper()
	b := setup(tb)
	const effects = 4
	b.admit(repeatable, effects)
	var cut inboxtest.Cut
	pool := cut.Pool(tb, b.pool)
	r := b.replays(replay.Config{})
	step := newSteps(b, pool)
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			b.exec(`DELETE FROM effect_attempt`)
			b.exec(`UPDATE effect SET version = 1`)
			b.died()
			p := plan(tb, r, everything(), replay.Options{})
			start(tb, r, p)
			cut.Arm(0, false)
			pool.Reset()
			if err := pool.Ping(tb.Context()); err != nil {
				tb.Fatal(err)
			}
			cut.Arm(n, after)
			_, _ = step(tb.Context(), p.ID)
			if !cut.Struck() {
				break
			}
			where := fmt.Sprintf("killed at message %d, arrived %t", n, after)
			// As the server sees it in the end: it may still be at the last message.
			torn := `SELECT count(*) FROM effect e JOIN replay_item i ON i.effect_id = e.id LEFT JOIN replay_outcome o USING (replay_id, position) WHERE i.replay_id = $1 AND NOT (
				o.outcome IS NULL AND e.state = 'dead' AND e.version = 1
				OR o.outcome = 'replayed' AND e.state = 'pending' AND e.version = 2 AND EXISTS (SELECT FROM river_job j WHERE j.id = e.job_id))`
			b.rested()
			if got := b.count(torn, p.ID); got != 0 {
				tb.Errorf("%s: %d items are neither done nor as they were", where, got)
			}
			for {
				s, err := step(tb.Context(), p.ID)
				if err != nil {
					continue // a connection that died with it
				}
				if s.State != replay.Running {
					break
				}
			}
			if got := b.count(`SELECT count(*) FROM effect e JOIN replay_item i ON i.effect_id = e.id AND i.replay_id = $1
				JOIN replay_outcome o USING (replay_id, position) WHERE e.state = 'pending' AND e.version = 2 AND o.outcome = 'replayed'`, p.ID); got != effects {
				tb.Errorf("%s: %d effects have fresh attempts once, want %d", where, got, effects)
			}
		}
	}
}

// rested waits until no transaction holds an effect.
func (b *bundle) rested() {
	b.tb.Helper()
	err := pgx.BeginFunc(b.tb.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(b.tb.Context(), `LOCK TABLE effect IN EXCLUSIVE MODE`)
		return err
	})
	if err != nil {
		b.tb.Fatal(err)
	}
}

// waiting counts who waits for a session's locks, and who waits for those in turn.
const waiting = `
WITH RECURSIVE w AS (
    SELECT $1::int AS pid
    UNION
    SELECT a.pid FROM pg_stat_activity a JOIN w ON w.pid = ANY (pg_blocking_pids(a.pid)))
SELECT count(*) - 1 FROM w`

// meets lets three work on one replay at once, all of them in the middle of their first
// step when the first of them goes on: each item is taken once.
func meets(tb testing.TB, newSteps makeStepper) {
	tb.Helper()
	b := setup(tb)
	const effects = 60
	b.admit(repeatable, effects)
	b.died()
	r := b.replays(replay.Config{})
	p := plan(tb, r, everything(), replay.Options{})
	start(tb, r, p)
	tx, err := b.pool.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) }() // it was committed, or the test failed
	// An effect that is locked alone is left for later.
	if _, err := tx.Exec(tb.Context(), `SELECT FROM inbox_event v JOIN effect e ON e.event_id = v.id FOR UPDATE`); err != nil {
		tb.Fatal(err)
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	const runners = 3
	for range runners {
		step := newSteps(b, b.work)
		wait.Go(func() {
			for {
				s, err := step(tb.Context(), p.ID)
				if err != nil {
					tb.Errorf("a step: %v", err)
					return
				}
				mu.Lock()
				taken += s.Items
				mu.Unlock()
				if s.State != replay.Running {
					return
				}
			}
		})
	}
	b.eventually("all of them to be in the middle of a step", func() bool {
		return b.count(waiting, tx.Conn().PgConn().PID()) >= runners
	})
	if err := tx.Commit(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	wait.Wait()
	if taken != effects {
		tb.Errorf("%d items were taken, want %d", taken, effects)
	}
	if got := b.count(`SELECT count(*) FROM effect WHERE version = 2`); got != effects {
		tb.Errorf("%d effects have fresh attempts once, want %d", got, effects)
	}
}

// changes lets an effect change between the plan and its turn.
func changes(tb testing.TB, newSteps makeStepper) {
	tb.Helper()
	b := setup(tb)
	b.admit(repeatable, 2)
	b.died()
	r := b.replays(replay.Config{})
	p := plan(tb, r, everything(), replay.Options{})
	start(tb, r, p)
	b.exec(`UPDATE effect SET version = 5`) // it ran and died again meanwhile
	step := newSteps(b, b.work)
	for s := (replay.Step{State: replay.Running}); s.State == replay.Running; {
		var err error
		if s, err = step(tb.Context(), p.ID); err != nil {
			tb.Fatal(err)
		}
	}
	if got := b.count(`SELECT count(*) FROM effect WHERE state = 'dead' AND version = 5`); got != 2 {
		tb.Errorf("%d of 2 changed effects were left alone", got)
	}
}

// stops cancels a replay that is half done.
func stops(tb testing.TB, newSteps makeStepper) {
	tb.Helper()
	b := setup(tb)
	b.admit(repeatable, 4)
	b.died()
	r := b.replays(replay.Config{})
	p := plan(tb, r, everything(), replay.Options{})
	start(tb, r, p)
	step := newSteps(b, b.work)
	if _, err := step(tb.Context(), p.ID); err != nil {
		tb.Fatal(err)
	}
	if _, err := r.Cancel(tb.Context(), replay.CancelRequest{ID: p.ID, Actor: actor, Reason: why}); err != nil {
		tb.Fatal(err)
	}
	moved := b.count(`SELECT count(*) FROM effect WHERE state <> 'dead'`)
	if s, err := step(tb.Context(), p.ID); err != nil || s.State == replay.Running {
		tb.Errorf("a step after the end: %+v, %v", s, err)
	}
	if again := b.count(`SELECT count(*) FROM effect WHERE state <> 'dead'`); again != moved {
		tb.Errorf("%d effects moved on after the end", again-moved)
	}
}

func stepTests() map[string]func(testing.TB, makeStepper) {
	return map[string]func(testing.TB, makeStepper){"dies": dies, "meets": meets, "changes": changes, "stops": stops}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	for name, test := range stepTests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, rightSteps)
		})
	}
}

// wrongSteps are runners as one may write them; each fails the test it is named
// with.
func wrongSteps() map[string]struct {
	fails string
	make  makeStepper
} {
	return map[string]struct {
		fails string
		make  makeStepper
	}{
		"marks the items after the commit": {"dies", wrongStep{apart: true}.make},
		"does not lock the replay":         {"meets", wrongStep{unlocked: true}.make},
		"does not compare versions":        {"changes", wrongStep{unversioned: true}.make},
		"does not look whether it ended":   {"stops", wrongStep{blind: true}.make},
		"wakes after the commit":           {"dies", wrongStep{late: true}.make},
	}
}

func TestWrongStepsFail(t *testing.T) {
	t.Parallel()
	tests := stepTests()
	for name, piece := range wrongSteps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if failures := inboxtest.Record(t, func(tb testing.TB) { tests[piece.fails](tb, piece.make) }); len(failures) == 0 {
				t.Errorf("%q does not fail a runner that %s", piece.fails, name)
			}
		})
	}
	t.Run("none is wrong", func(t *testing.T) {
		t.Parallel()
		for test := range tests {
			if failures := inboxtest.Record(t, func(tb testing.TB) { tests[test](tb, wrongStep{}.make) }); len(failures) > 0 {
				t.Errorf("%q fails the museum's right one: %v", test, failures)
			}
		}
	})
}

// wrongStep is a runner of two items a step, right but for what is set.
type wrongStep struct{ apart, unlocked, unversioned, blind, late bool }

func (w wrongStep) make(b *bundle, pool *pgxpool.Pool) stepper {
	return func(ctx context.Context, id inbox.ID) (step replay.Step, err error) {
		var positions []int64
		var wakes []inbox.Wake
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			positions, wakes, step, err = w.step(ctx, b, tx, id)
			if err == nil && !w.apart {
				err = w.mark(ctx, tx, id, positions)
			}
			if err == nil && !w.late {
				err = w.wake(ctx, b, tx, wakes)
			}
			return err
		})
		if err == nil && w.apart {
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return w.mark(ctx, tx, id, positions) })
		}
		if err == nil && w.late {
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return w.wake(ctx, b, tx, wakes) })
		}
		return step, err
	}
}

func (w wrongStep) step(ctx context.Context, b *bundle, tx pgx.Tx, id inbox.ID) (positions []int64, wakes []inbox.Wake, step replay.Step, err error) {
	lock := ` FOR UPDATE`
	if w.unlocked {
		lock = ``
	}
	if err := tx.QueryRow(ctx, `SELECT state FROM replay WHERE id = $1`+lock, id).Scan(&step.State); err != nil {
		return nil, nil, step, err
	}
	if step.State != replay.Running && !w.blind {
		return nil, nil, step, nil
	}
	rows, err := tx.Query(ctx, `SELECT position, effect_id, effect_version FROM replay_item LEFT JOIN replay_outcome USING (replay_id, position) WHERE replay_id = $1 AND outcome IS NULL ORDER BY position LIMIT 2`, id)
	if err != nil {
		return nil, nil, step, err
	}
	type item struct {
		Position int64
		Effect   inbox.ID
		Version  int
	}
	items, err := pgx.CollectRows(rows, pgx.RowToStructByPos[item])
	if err != nil {
		return nil, nil, step, err
	}
	step.Items = len(items)
	if len(items) == 0 {
		step.State = replay.Done
		_, err = tx.Exec(ctx, `UPDATE replay SET state = 'done' WHERE id = $1 AND state = 'running'`, id)
		return nil, nil, step, err
	}
	var jobIDs []int64
	var reserve pgx.Batch
	b.queue.ReserveTx(&reserve, len(items), &jobIDs)
	if err := tx.SendBatch(ctx, &reserve).Close(); err != nil {
		return nil, nil, step, err
	}
	for i, it := range items {
		tag, err := tx.Exec(ctx, `UPDATE effect SET state = 'pending', reason = NULL, next_at = now(), version = version + 1, job_id = $2
			WHERE id = $1 AND state IN ('dead', 'pending') AND (version = $3 OR $4) AND (state = 'dead' OR $5)`, it.Effect, jobIDs[i], it.Version, w.unversioned || w.apart || w.unlocked, w.apart || w.unlocked)
		if err != nil {
			return nil, nil, step, err
		}
		positions = append(positions, it.Position)
		if tag.RowsAffected() == 1 {
			wakes = append(wakes, inbox.Wake{JobID: jobIDs[i], Kind: inbox.WakeEffect, ID: it.Effect})
		}
	}
	return positions, wakes, step, nil
}

func (w wrongStep) mark(ctx context.Context, tx pgx.Tx, id inbox.ID, positions []int64) error {
	_, err := tx.Exec(ctx, `INSERT INTO replay_outcome (replay_id, position, outcome) SELECT $1, unnest($2::bigint[]), 'replayed' ON CONFLICT DO NOTHING`, id, positions)
	return err
}

func (w wrongStep) wake(ctx context.Context, b *bundle, tx pgx.Tx, wakes []inbox.Wake) error {
	var batch pgx.Batch
	b.queue.EnqueueTx(&batch, wakes)
	if batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &batch).Close()
}
