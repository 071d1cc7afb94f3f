package jobs_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A handler outside the database runs after its claim is committed, and with no
// transaction open; what may have happened is repeated only if it deduplicates.
func TestOutsideHandlers(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("own")
	for name, c := range map[string]struct {
		route    string
		errs     []error // of each attempt; the last one is nil
		state    inbox.EffectState
		outcomes []string
	}{
		"done":                             {once, []error{nil}, inbox.EffectDone, []string{"done"}},
		"not done, and said so":            {once, []error{effect.After(0, errOwn), nil}, inbox.EffectDone, []string{"retry", "done"}},
		"may have happened":                {once, []error{errOwn, nil}, inbox.EffectIndeterminate, []string{"indeterminate"}},
		"may have happened, deduplicates":  {repeatable, []error{errOwn, errOwn, nil}, inbox.EffectDone, []string{"retry", "retry", "done"}},
		"for good":                         {once, []error{effect.Permanent(errOwn), nil}, inbox.EffectDead, []string{"dead"}},
		"its time is over":                 {once, []error{context.DeadlineExceeded}, inbox.EffectIndeterminate, []string{"indeterminate"}},
		"not done, and more than it knows": {once, []error{effect.After(0, errors.Join(errOwn, errOwn)), nil}, inbox.EffectDone, []string{"retry", "done"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(c.route, 1)[0]
			var keys []string
			h := &effect.OutsideHandler{Deduplicates: c.route == repeatable}
			h.Handle = func(_ context.Context, call *effect.Call) ([]byte, error) {
				if r := b.row(id); r.State != string(inbox.EffectClaimed) {
					t.Errorf("called while the effect is %s for others", r.State)
				}
				keys = append(keys, call.Key)
				return []byte("receipt"), c.errs[call.Attempt-1]
			}
			b.client(jobs.Config{Senders: map[string]effect.Sender{c.route: h}})
			b.eventuallyState(id, c.state)
			if got := b.outcomes(id); !slices.Equal(got, c.outcomes) || len(keys) != len(got) || len(slices.Compact(keys)) != 1 {
				t.Errorf("attempts %v under the keys %v, want %v", got, keys, c.outcomes)
			}
			if n := b.count(`SELECT count(*) FROM effect WHERE (state = 'done') = (result = 'receipt')`); c.state == inbox.EffectDone && n != 1 {
				t.Error("the result is not kept")
			}
		})
	}
}

// One that kills its process is not called again: its claim was committed, and so
// was that it began.
func TestAnOutsideHandlerThatKillsTheProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(once, 1)[0]
	killed := b.store("killed")
	if mine, err := killed.StartSend(t.Context(), b.claim(killed, id), inbox.SendStart{Began: true}); !mine || err != nil {
		t.Fatal(mine, err)
	}
	b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s'`)
	called := 0
	b.client(jobs.Config{SweepEvery: 50 * time.Millisecond, Senders: map[string]effect.Sender{once: &effect.OutsideHandler{
		Handle: func(context.Context, *effect.Call) ([]byte, error) { called++; return nil, nil },
	}}})
	b.eventuallyState(id, inbox.EffectIndeterminate)
	if called != 0 {
		t.Errorf("called %d times", called)
	}
}
