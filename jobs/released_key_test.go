package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A mail server said 451 to the first mail until it was dead; for ever after, each
// later call with its key was a duplicate of what certainly never happened.
func TestADeadOwnerReleasesItsKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		within time.Duration
		past   string // what is known of the owner beside that it is dead
		free   bool
	}{
		"it never happened":                  {0, ``, true},
		"it never happened, within a minute": {time.Minute, ``, true},
		"it may have":                        {0, `UPDATE effect SET unknown_since = now()`, false},
		"it may have, within a minute":       {time.Minute, `UPDATE effect SET unknown_since = now()`, false},
		"it may have before it was resent":   {0, `UPDATE effect SET unknown_before = true`, false},
		"it did, and was replayed":           {0, `UPDATE effect_attempt SET outcome = 'done' WHERE attempt = 1`, false},
		"it became a list": {0, `INSERT INTO effect (id, event_id, route_id, item, route_version, idempotency_key, state, finished_at)
			SELECT gen_random_uuid(), event_id, route_id, 1, 1, 'item', 'done', now() FROM effect`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.keys.within = c.within
			down := true
			s := &sink{answer: func(context.Context, *effect.Call) effect.Result {
				if down {
					return effect.Result{Outcome: effect.Retry, Reason: reasons.Mail4xx, Code: "451"}
				}
				return effect.Result{Outcome: effect.Done}
			}}
			owner := b.admit(once, 1)[0]
			node := b.client(jobs.Config{Routes: b.keyed("event.type"), Senders: senders(s)})
			b.eventuallyState(owner, inbox.EffectDead)
			b.stop(node)
			if c.past != "" {
				b.exec(c.past)
			}
			down = false
			later := b.admit(once, 4)
			b.client(jobs.Config{Routes: b.keyed("event.type"), Senders: senders(s)})
			b.eventually("the later calls to end", func() bool {
				return b.count(`SELECT count(*) FROM effect WHERE id = ANY ($1) AND state IN ('done', 'duplicate')`, later) == 4
			})
			if n, want := b.count(`SELECT count(*) FROM effect WHERE id = ANY ($1) AND state = 'done'`, later), map[bool]int{true: 1}[c.free]; n != want {
				t.Fatalf("%d of the later calls happened, want %d", n, want)
			}
			if !c.free {
				return
			}
			if n := b.count(`SELECT count(*) FROM effect e JOIN effect o ON o.id = e.duplicate_of WHERE o.state = 'done'`); n != 3 {
				t.Errorf("%d of them are duplicates of the one that happened, want 3", n)
			}
		})
	}
}

// Who was a duplicate of the dead owner was told its failure, and keeps it. Replayed,
// the owner finds another in its place, becomes that one's duplicate and does nothing,
// and its own duplicates follow: none is left that points at a duplicate.
func TestAnOwnerThatComesBackFindsItsSuccessor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	answer := effect.Result{Outcome: effect.Dead, Reason: reasons.Mail5xx, Code: "550"}
	s := &sink{answer: func(context.Context, *effect.Call) effect.Result { return answer }}
	cfg := jobs.Config{Routes: b.keyed("event.type"), Senders: senders(s)}
	owner := b.admit(once, 1)[0]
	node := b.client(cfg)
	b.eventuallyState(owner, inbox.EffectDead)
	b.stop(node)
	early := b.admit(once, 1)[0]
	b.exec(`UPDATE effect SET state = 'duplicate', duplicate_of = $2, next_at = NULL, finished_at = now() WHERE id = $1`, early, owner)
	answer = effect.Result{Outcome: effect.Done, Stored: []byte(`{"mail":1}`)}
	successor := b.admit(once, 1)[0]
	node = b.client(cfg)
	b.eventuallyState(successor, inbox.EffectDone)
	b.stop(node)
	if of := b.text(`SELECT duplicate_of::text FROM effect WHERE id = $1`, early); of != owner.String() {
		t.Errorf("the early duplicate is one of %s, want of %s still", of, owner)
	}
	r := b.replays(replay.Config{})
	p := plan(t, r, replay.Scope{IDs: []inbox.ID{owner}}, replay.Options{})
	start(t, r, p)
	run(t, r, p.ID)
	b.client(cfg)
	b.eventuallyState(owner, inbox.EffectDuplicate)
	if n := b.count(`SELECT count(*) FROM effect WHERE id IN ($1, $2) AND duplicate_of = $3 AND result = '{"mail":1}'`, owner, early, successor); n != 2 {
		t.Errorf("%d of the two are duplicates of the one that happened, with its result", n)
	}
	if n := s.calls.Load(); n != 2 {
		t.Errorf("%d mails were sent, want the refused one and one more", n)
	}
}

// The owner gets fresh attempts and asks for its own key at the same moment as a later
// call: whoever comes second must see what the first has done.
func TestAKeyIsNotTakenFromAnOwnerThatComesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(once, 2)
	store := b.store("node-1")
	hash := make([]byte, 32)
	first := b.claim(store, ids[0])
	if owner, err := store.Own(t.Context(), first, hash); err != nil || owner.Effect != ids[0] {
		t.Fatal(owner, err)
	}
	b.settle(store, inbox.Settlement{Effect: ids[0], Token: first.Token, State: inbox.EffectDead, Reason: reasons.Mail4xx, Outcome: inbox.AttemptDead, Trigger: first.Trigger, StartedAt: first.StartedAt})
	second := b.claim(store, ids[1])
	b.exec(`UPDATE effect SET state = 'pending', reason = NULL, version = 2, attempts = 0, next_at = now() WHERE id = $1`, ids[0])
	back := b.claim(store, ids[0])
	tx, err := store.Begin(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	// What a snapshot of before the owner came back would show.
	b.exec(`UPDATE effect SET state = 'dead', reason = 'smtp_4xx', next_at = NULL, lease_token = NULL, lease_until = NULL WHERE id = $1`, ids[0])
	if _, err := tx.Exec(t.Context(), `UPDATE effect SET state = 'claimed', reason = NULL, lease_token = $2, lease_until = now() + interval '1 minute', next_at = now() WHERE id = $1`, ids[0], back.Token); err != nil {
		t.Fatal(err)
	}
	if owner, err := store.OwnTx(t.Context(), tx, back, hash); err != nil || owner.Effect != ids[0] {
		t.Fatal(owner, err)
	}
	type answer struct {
		owner inbox.Owner
		err   error
	}
	asked := make(chan answer, 1)
	go func() {
		owner, err := store.Own(t.Context(), second, hash)
		asked <- answer{owner, err}
	}()
	b.eventually("the later call to wait for the key", func() bool {
		return b.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND $1 = ANY (pg_blocking_pids(pid))`, pid(t, tx)) > 0
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-asked; a.err != nil || a.owner.Effect != ids[0] {
		t.Errorf("the key went to %s, %v; its owner %s is sending", a.owner.Effect, a.err, ids[0])
	}
}

// A key is deleted while an effect asks for it, by a transaction that has locked it already, as prune does: the effect owns
// the key then, and the next one that asks is its duplicate. An effect that went ahead without the key would let the next one
// happen as well.
func TestAKeyThatIsDeletedMeanwhileIsOwnedAnew(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]time.Duration{"ever": 0, "within an hour": time.Hour} {
		for _, how := range []string{"in a group", "in the effect's transaction"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.keys.within = within
				ids := b.admit(once, 3)
				store, hash := b.store("node-1"), make([]byte, 32)
				own := func(claim *inbox.Claim) (owner inbox.Owner, err error) {
					if how == "in a group" {
						return store.Own(t.Context(), claim, hash)
					}
					err = pgx.BeginFunc(t.Context(), b.work, func(tx pgx.Tx) (err error) {
						owner, err = store.OwnTx(t.Context(), tx, claim, hash)
						return err
					})
					return owner, err
				}
				if owner, err := own(b.claim(store, ids[0])); err != nil || owner.Effect != ids[0] {
					t.Fatal(owner, err)
				}
				second, third := b.claim(store, ids[1]), b.claim(store, ids[2])
				deleting, err := store.Begin(t.Context(), time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = deleting.Rollback(t.Context()) }()
				if _, err := deleting.Exec(t.Context(), `SELECT FROM effect_key FOR UPDATE`); err != nil {
					t.Fatal(err)
				}
				type answer struct {
					owner inbox.Owner
					err   error
				}
				asked := make(chan answer, 1)
				go func() {
					owner, err := own(second)
					asked <- answer{owner, err}
				}()
				b.eventually("the effect to wait for the key", func() bool {
					return b.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND $1 = ANY (pg_blocking_pids(pid))`, pid(t, deleting)) > 0
				})
				if _, err := deleting.Exec(t.Context(), `DELETE FROM effect_key`); err != nil {
					t.Fatal(err)
				}
				if err := deleting.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if a := <-asked; a.err != nil || !a.owner.Held || a.owner.Effect != ids[1] {
					t.Errorf("the effect that waited: %+v, %v; want that it owns the key", a.owner, a.err)
				}
				if owner, err := own(third); err != nil || owner.Effect != ids[1] {
					t.Errorf("the next effect: %+v, %v; want that the key is owned by the one before", owner, err)
				}
			})
		}
	}
}

func pid(tb testing.TB, tx pgx.Tx) int {
	tb.Helper()
	return int(tx.Conn().PgConn().PID())
}
