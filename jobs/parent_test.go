package jobs_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// follows admits a call of the operation charge that resumes a parent, which may be none.
func (b *bundle) follows(route string, parent inbox.ID) inbox.ID {
	b.tb.Helper()
	id := b.admit(route, 1)[0]
	b.exec(`UPDATE inbox_event SET type = 'charge', parent = $2 WHERE id = $1`, id, parent)
	if !parent.IsZero() {
		b.exec(`INSERT INTO operation_follow (child, parent, kind, intent_hash, parent_status) VALUES ($1, $2, 'resumes', sha256('i'), 'failed')`, id, parent)
	}
	return id
}

// What the parent has done is not done again, what it has not is, and what is not known waits.
func TestACallThatResumesItsParent(t *testing.T) {
	t.Parallel()
	const dead = `state = 'dead', next_at = NULL, reason = 'attempts_exhausted'`
	for name, c := range map[string]struct {
		parent, change string
		state          inbox.EffectState
		reason         string
		sent           int
	}{
		"done":                        {parent: `state = 'done', next_at = NULL, finished_at = now(), result = '{"n":1}'`, state: inbox.EffectDuplicate, reason: "parent_done"},
		"dead":                        {parent: dead, state: inbox.EffectDone, sent: 1},
		"discarded":                   {parent: `state = 'skipped', next_at = NULL, finished_at = now(), reason = 'discarded'`, state: inbox.EffectDone, sent: 1},
		"discarded, perhaps done":     {parent: `state = 'skipped', next_at = NULL, finished_at = now(), reason = 'discarded', unknown_since = now()`, state: inbox.EffectIndeterminate, reason: "parent_gone"},
		"not resumed, but replaced":   {parent: `state = 'done', next_at = NULL, finished_at = now()`, change: `UPDATE operation_follow SET kind = 'instead_of'`, state: inbox.EffectDone, sent: 1},
		"its effect is pruned":        {parent: `state = 'done', next_at = NULL, finished_at = now()`, change: `DELETE FROM effect WHERE id = (SELECT parent FROM operation_follow)`, state: inbox.EffectIndeterminate, reason: "parent_gone"},
		"its event is pruned":         {parent: `state = 'done', next_at = NULL, finished_at = now()`, change: `WITH gone AS (DELETE FROM effect WHERE id = (SELECT parent FROM operation_follow)) DELETE FROM inbox_event WHERE id = (SELECT parent FROM operation_follow)`, state: inbox.EffectIndeterminate, reason: "parent_gone"},
		"nobody knows how it follows": {parent: `state = 'done', next_at = NULL, finished_at = now()`, change: `DELETE FROM operation_follow`, state: inbox.EffectIndeterminate, reason: "parent_gone"},
		"dead, sent again before":     {parent: dead + `, unknown_before = true`, state: inbox.EffectIndeterminate, reason: "parent_gone"},
		"its owner is pruned":         {parent: `state = 'duplicate', next_at = NULL, finished_at = now(), duplicate_of = gen_random_uuid()`, state: inbox.EffectIndeterminate, reason: "parent_gone"},
		"dead, perhaps done":          {parent: dead + `, unknown_since = now()`, state: inbox.EffectPending, reason: "parent_open"},
		"indeterminate":               {parent: `state = 'indeterminate', next_at = NULL, reason = 'timeout'`, state: inbox.EffectPending, reason: "parent_open"},
		"given fresh attempts":        {parent: `next_at = now() + interval '1 hour'`, state: inbox.EffectPending, reason: "parent_open"},
	} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lost=%t", name, lost), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				parent := b.follows(repeatable, inbox.ID{})
				b.exec(`DELETE FROM river_job`)
				b.exec(`UPDATE effect SET `+c.parent+` WHERE id = $1`, parent)
				child := b.follows(repeatable, parent)
				if c.change != "" {
					b.exec(c.change)
				}
				want := c.state
				if lost {
					b.lose(child)
					if want == inbox.EffectPending {
						want = inbox.EffectRetry
					}
				}
				s := &sink{idempotent: true}
				b.client(jobs.Config{Senders: senders(s)})
				b.eventually("the child is where it belongs", func() bool {
					row := b.row(child)
					return row.State == string(want) && row.Reason == c.reason
				})
				if n := int(s.calls.Load()); n != c.sent {
					t.Errorf("%d sent, want %d", n, c.sent)
				}
				if c.reason == "parent_done" {
					if got := b.text(`SELECT convert_from(result, 'UTF8') || ' ' || (duplicate_of = $2)::text FROM effect WHERE id = $1`, child, parent); got != `{"n":1} true` {
						t.Errorf("the parent's result is %s", got)
					}
				}
			})
		}
	}
}

// lose claims an effect as a worker does that dies before it has checked anything, and lets its lease expire.
func (b *bundle) lose(id inbox.ID) {
	b.tb.Helper()
	store := b.store("killed")
	if claim := b.claim(store, id); claim == nil {
		b.tb.Fatal("nothing to claim")
	}
	b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s' WHERE id = $1`, id)
	err := pgx.BeginFunc(b.tb.Context(), b.pool, func(tx pgx.Tx) error {
		overdue, err := store.LockOverdueTx(b.tb.Context(), tx, []inbox.ID{id})
		if err == nil {
			_, err = store.ExpireTx(b.tb.Context(), tx, overdue)
		}
		return err
	})
	if err != nil {
		b.tb.Fatal(err)
	}
	if n := b.count(`SELECT count(*) FROM effect WHERE id = $1 AND unknown_since IS NOT NULL`, id); n != 1 {
		b.tb.Fatal("the lost attempt is not known to be one that may have happened")
	}
}

// A parent that resumed its own is looked through, and what it left out counts as done.
func TestACallResumesALineOfParents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.follows(repeatable, inbox.ID{})
	b.exec(`DELETE FROM river_job`)
	b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now() WHERE id = $1`, first)
	second := b.follows(repeatable, first)
	third := b.follows(repeatable, second)
	s := &sink{idempotent: true}
	b.client(jobs.Config{Senders: senders(s)})
	for _, id := range []inbox.ID{second, third} {
		b.eventuallyState(id, inbox.EffectDuplicate)
	}
	if s.calls.Load() != 0 {
		t.Error("what the first call has done was done again")
	}
}

// resumes makes a call the one that resumes another.
func (b *bundle) resumes(child, parent inbox.ID) {
	b.tb.Helper()
	b.exec(`UPDATE inbox_event SET type = 'charge', parent = $2 WHERE id = $1`, child, parent)
	b.exec(`INSERT INTO operation_follow (child, parent, kind, intent_hash, parent_status) VALUES ($1, $2, 'resumes', sha256('i'), 'partial')`, child, parent)
}

// A call that resumes a list which was done in part sends only the items that certainly did not happen, also if it resumes a call that
// resumed another one.
func TestAResumedListContinues(t *testing.T) {
	t.Parallel()
	for name, keyed := range map[string]bool{"with an effect key": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			refused := map[string]int{"b@x.example": 2, "d@x.example": 1} // the calls in which the server refuses them
			p := &post{}
			p.answer = func(to string) effect.Result {
				if refused[to]--; refused[to] >= 0 {
					return effect.Result{Outcome: effect.Dead, Reason: "mail_rejected", Code: "450"}
				}
				return effect.Result{Outcome: effect.Done}
			}
			var calls []inbox.ID
			for range 3 {
				call := b.batch("may", "a@x.example", "b@x.example", "c@x.example", "d@x.example")
				if len(calls) > 0 {
					b.resumes(call, calls[len(calls)-1])
				}
				calls = append(calls, call)
				client := b.client(jobs.Config{Senders: senders(p.sink()), Routes: b.campaigns(keyed)})
				b.nothingUnderWay()
				b.stop(client)
			}
			wantSent(t, p, map[string]int{"a@x.example": 1, "b@x.example": 1, "c@x.example": 1, "d@x.example": 1})
			for i, want := range []string{"done dead done dead", "duplicate dead duplicate done", "duplicate done duplicate duplicate"} {
				if got := b.text(`SELECT string_agg(state, ' ' ORDER BY item) FROM effect WHERE event_id = (SELECT event_id FROM effect WHERE id = $1) AND item > 0`, calls[i]); got != want {
					t.Errorf("call %d has items %s, want %s", i+1, got, want)
				}
			}
		})
	}
}

// What a resumed call makes of a list depends on the items of the earlier call. Only recipient 2 may be dead; the others are done.
func TestAResumedListInParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string   // of the parent
		to     []string // of the child
		want   string
		sent   int
	}{
		"all done":                        {`UPDATE effect SET state = 'done', finished_at = now(), reason = NULL WHERE state = 'dead'`, []string{"a@x.example", "b@x.example"}, "duplicate parent_done", 0},
		"none done":                       {`UPDATE effect SET state = 'dead', finished_at = NULL, reason = 'mail_5xx' WHERE item > 0`, []string{"a@x.example", "b@x.example"}, "done ", 2},
		"one may still be done":           {`UPDATE effect SET state = 'pending', next_at = now() + interval '1 hour' WHERE state = 'dead'`, []string{"a@x.example", "b@x.example"}, "pending parent_open", 0},
		"one was perhaps done":            {`UPDATE effect SET unknown_since = now() WHERE state = 'dead'`, []string{"a@x.example", "b@x.example"}, "pending parent_open", 0},
		"one was perhaps done, discarded": {`UPDATE effect SET state = 'skipped', finished_at = now(), reason = 'discarded', unknown_since = now() WHERE state = 'dead'`, []string{"a@x.example", "b@x.example"}, "indeterminate parent_gone", 0},
		"the list is another one":         {``, []string{"b@x.example", "c@x.example"}, "dead parent_partial", 0},
		"the list is one that was done":   {``, []string{"a@x.example"}, "duplicate parent_done", 0},
		"the list is one that was not":    {``, []string{"b@x.example"}, "dead parent_partial", 0},
		"the list is empty":               {``, []string{}, "dead parent_partial", 0},
		"one was cancelled":               {`UPDATE effect SET state = 'skipped', finished_at = now(), reason = 'list_cancelled' WHERE state = 'dead'`, []string{"a@x.example", "b@x.example"}, "done ", 1},
		"cancelled while it was written":  {`UPDATE effect SET state = 'skipped', finished_at = now(), reason = 'list_cancelled', result = NULL WHERE item = 0 OR state = 'dead'`, []string{"a@x.example", "b@x.example"}, "done ", 1},
		"cancelled, one was perhaps done": {`UPDATE effect SET state = 'skipped', finished_at = now(), reason = 'list_cancelled', result = NULL, unknown_before = item > 0 WHERE item = 0 OR state = 'dead'`, []string{"a@x.example", "b@x.example"}, "indeterminate parent_gone", 0},
		"a part of it":                    {``, []string{"a@x.example", "b@x.example"}, "done ", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := &post{answer: func(to string) effect.Result {
				if to == "b@x.example" {
					return effect.Result{Outcome: effect.Dead, Reason: "mail_rejected", Code: "450"}
				}
				return effect.Result{Outcome: effect.Done}
			}}
			parent := b.batch("may", "a@x.example", "b@x.example")
			client := b.client(jobs.Config{Senders: senders(p.sink()), Routes: b.campaigns(false)})
			b.nothingUnderWay()
			b.stop(client)
			if c.change != "" {
				b.exec(c.change)
			}
			b.exec(`DELETE FROM river_job`)
			child := b.batch("may", c.to...)
			b.resumes(child, parent)
			q := &post{}
			b.client(jobs.Config{Senders: senders(q.sink()), Routes: b.campaigns(false)})
			b.eventually("the child is where it belongs", func() bool {
				row := b.row(child)
				return row.State+" "+row.Reason == c.want
			})
			b.eventually("what is to be sent is sent", func() bool {
				return b.count(`SELECT count(*) FROM effect WHERE state IN ('claimed', 'retry') OR state = 'pending' AND next_at <= now()`) == 0
			})
			if sent := len(q.counts()); sent != c.sent {
				t.Errorf("%d sent, want %d", sent, c.sent)
			}
		})
	}
}

// A replay of the parent that is about to begin is waited for, since its row is held.
func TestAResumedCallWaitsForAReplayOfItsParent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	parent := b.follows(repeatable, inbox.ID{})
	b.exec(`DELETE FROM river_job`)
	b.exec(`UPDATE effect SET state = 'dead', next_at = NULL, reason = 'attempts_exhausted' WHERE id = $1`, parent)
	child := b.follows(repeatable, parent)
	letGo := b.stranger(`UPDATE effect SET revision = revision + 1 WHERE id = $1`, parent)
	defer letGo()
	s := &sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result { return effect.Result{Outcome: effect.Done} }}
	b.client(jobs.Config{Senders: senders(s)})
	b.eventually("the child waits", func() bool { return b.row(child).Reason == "parent_open" })
	if s.calls.Load() != 0 {
		t.Error("the child was sent while its parent was decided about")
	}
}

// What an earlier call may have done waits for a person, and no probe asks for it. A person may have it done.
func TestAPersonDecidesWhereNothingIsKeptOfTheParent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	parent := b.follows(once, inbox.ID{})
	child := b.follows(once, parent)
	b.exec(`DELETE FROM effect WHERE id = $1`, parent)
	s := &sink{}
	b.client(jobs.Config{Senders: map[string]effect.Sender{once: s}})
	b.eventuallyState(child, inbox.EffectIndeterminate)
	store := b.store("node-2")
	if asked, err := store.Indeterminate(t.Context(), b.routes[once], inbox.ID{}, 10); len(asked) != 0 || err != nil || s.calls.Load() != 0 {
		t.Errorf("a probe asks for %+v, %v; %d sent", asked, err, s.calls.Load())
	}
	if err := decide.New(store).Resolve(t.Context(), decide.Resolve{Effect: child, As: decide.ResolveResend, Actor: actor, Reason: why}); err != nil {
		t.Fatal(err)
	}
	b.eventuallyState(child, inbox.EffectDone)
}
