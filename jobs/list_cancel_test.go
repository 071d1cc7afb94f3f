package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// slow is a target that answers when the test says so.
type slow struct {
	arrived chan struct{}
	answer  chan effect.Result // closed: each attempt is carried out
}

func newSlow(t *testing.T, s *sink) (target *slow, open func()) {
	t.Helper()
	target = &slow{arrived: make(chan struct{}, 1000), answer: make(chan effect.Result)}
	carryOut := s.answer
	s.answer = func(ctx context.Context, c *effect.Call) effect.Result {
		target.arrived <- struct{}{}
		if r, ok := <-target.answer; ok {
			return r
		}
		return carryOut(ctx, c)
	}
	open = sync.OnceFunc(func() { close(target.answer) })
	t.Cleanup(open)
	return target, open
}

// A cancelled list sends nothing that had not begun: the messages under way end, and the others are skipped. A message
// whose attempt fails after that is not tried again. The keys of the skipped messages are free, and a replay sends them.
func TestACancelledListSendsNothingMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n, slots = 60, 4
	to := make([]string, n)
	for i := range to {
		to[i] = fmt.Sprintf("r%d@x.example", i+1)
	}
	p := &post{}
	s := p.sink()
	target, open := newSlow(t, s)
	id := b.batch("may", to...)
	store := b.store("node-1")
	r := b.replays(replay.Config{Store: store})
	b.client(jobs.Config{Store: store, Replays: r, Senders: senders(s), Routes: b.campaigns(true), Targets: map[string]jobs.Target{once: {Concurrency: slots}}})
	for range slots {
		<-target.arrived
	}
	b.within(time.Minute, "the list to be written", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE item > 0`) == n && b.count(`SELECT count(*) FROM effect WHERE item = 0 AND state = 'done'`) == 1
	})

	decider := decide.New(store)
	cancel := decide.CancelList{Effect: id, Actor: "ann", Reason: "wrong template"}
	out, err := decider.CancelList(t.Context(), cancel)
	if err != nil || out.Open != n {
		t.Fatalf("cancelled %+v, %v", out, err)
	}
	target.answer <- effect.Result{Outcome: effect.Retry, Reason: reasons.Mail4xx} // certainly not sent
	open()
	b.nothingUnderWay()
	if got := b.count(`SELECT count(*) FROM effect WHERE item > 0 AND state = 'skipped' AND reason = 'list_cancelled'`); got != n-slots+1 {
		t.Errorf("%d messages are skipped, want %d", got, n-slots+1)
	}
	if got := b.count(`SELECT count(*) FROM effect WHERE item > 0 AND state = 'done'`); got != slots-1 || len(p.counts()) != slots-1 {
		t.Errorf("%d messages are done and %d sent, want %d", got, len(p.counts()), slots-1)
	}
	if got := b.count(`SELECT count(*) FROM effect_key k JOIN effect e ON e.id = k.effect_id WHERE e.item > 0`); got != slots-1 {
		t.Errorf("%d keys are taken, want those of the %d messages that were sent", got, slots-1)
	}
	again, err := decider.CancelList(t.Context(), cancel)
	if err != nil || !again.CancelledAt.Equal(out.CancelledAt) || b.count(`SELECT count(*) FROM audit WHERE action = 'list.cancel'`) != 1 {
		t.Errorf("the second answer is %+v, %v, want the first one", again, err)
	}
	head, err := inboxtest.Lister(b.pool).Effect(t.Context(), id)
	if err != nil || head.List == nil || head.List.CancelledAt == nil || !head.List.CancelledAt.Equal(out.CancelledAt) {
		t.Errorf("the list is shown as %+v, %v", head.List, err)
	}

	start(t, r, plan(t, r, replay.Scope{IDs: []inbox.ID{id}}, replay.Options{IncludeDiscarded: true}))
	b.within(time.Minute, "the replay to send the rest", func() bool { return len(p.counts()) == n })
	for to, times := range p.counts() {
		if times != 1 {
			t.Errorf("%s was sent %d messages", to, times)
		}
	}
	// A redelivery gives a dead message new attempts, too. It does not overrule the operator.
	for trigger, want := range map[string]bool{"rearm": true, "replay": false, "manual": false} {
		b.exec(`UPDATE effect SET fresh_trigger = $1, rearmed_at = now() + interval '1 hour' WHERE item = 1`, trigger)
		var item inbox.ID
		if err := b.pool.QueryRow(t.Context(), `SELECT id FROM effect WHERE item = 1`).Scan(&item); err != nil {
			t.Fatal(err)
		}
		if cancelled, err := store.ListCancelled(t.Context(), &inbox.Claim{Effect: item}); err != nil || cancelled != want {
			t.Errorf("given new attempts by %s, the message is cancelled: %t, %v", trigger, cancelled, err)
		}
	}
}

// In an ordered route a cancelled list keeps its place until its messages under way have ended. Then the stream continues.
func TestACancelledListKeepsItsPlaceForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.ordered(once, sequence.Policy{Mode: sequence.Contiguous, Start: "1"})
	ids := b.letters(5, 1)
	o := &office{}
	s := o.sink()
	target, open := newSlow(t, s)
	b.client(jobs.Config{Store: store, Senders: senders(s), Routes: b.listed("body.to", nil), Targets: map[string]jobs.Target{once: {Concurrency: 2}}})
	<-target.arrived
	<-target.arrived
	if _, err := decide.New(store).CancelList(t.Context(), decide.CancelList{Effect: ids[0], Actor: "ann", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	b.within(time.Minute, "the messages that had not begun to be skipped", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE reason = 'list_cancelled' AND item > 0`) == 3
	})
	b.eventually("the list to see that", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE id = $1 AND state IN ('pending', 'claimed', 'retry')`, ids[0]) == 1
	})
	if state := b.row(ids[1]).State; state != string(inbox.EffectHeld) {
		t.Errorf("what follows the list is %s while two of its messages are under way", state)
	}
	open()
	b.eventuallyState(ids[0], inbox.EffectSkipped)
	b.eventuallyState(ids[1], inbox.EffectDone)
	if sent := o.letters(); len(sent) != 3 || !slices.IsSortedFunc(sent, func(x, y string) int { return strings.Compare(x[:2], y[:2]) }) {
		t.Errorf("written to %q, want the two that had begun and then the next letter", sent)
	}
}

// Only a list with messages that have not ended can be cancelled.
func TestWhatIsNoListIsNotCancelled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := &post{}
	single, ended := b.batch("june", "one@x.example"), b.batch("july", "one@x.example", "two@x.example")
	b.client(jobs.Config{Senders: senders(p.sink()), Routes: b.campaigns(false)})
	b.nothingUnderWay()
	for _, c := range []struct {
		id   inbox.ID
		want error
	}{{single, inbox.ErrState}, {ended, inbox.ErrState}, {inbox.NewID(time.Now()), inbox.ErrNotFound}} {
		if _, err := decide.New(b.store("node-1")).CancelList(t.Context(), decide.CancelList{Effect: c.id, Actor: "ann", Reason: "r"}); !errors.Is(err, c.want) {
			t.Errorf("cancelling %s: %v, want %v", c.id, err, c.want)
		}
	}
}
