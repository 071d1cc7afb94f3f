package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

var recipients = flag.Int("recipients", 2_000, "recipients of the message in bulk")

// bulk records one event that names n recipients.
func (b *bundle) bulk(n int) inbox.ID {
	b.tb.Helper()
	id := b.admit(once, 1)[0]
	to := make([]string, n)
	for i := range to {
		to[i] = fmt.Sprintf("r%d@example.com", i+1)
	}
	body, err := json.Marshal(map[string]any{"to": to})
	if err != nil {
		b.tb.Fatal(err)
	}
	b.exec(`UPDATE inbox_body SET body = $1`, body)
	b.exec(`UPDATE inbox_event SET body_offset = 0, body_length = $1`, len(body))
	return id
}

func (b *bundle) listed(source string, render func(*effect.Call, string) ([]byte, error)) map[int32]jobs.Route {
	if render == nil {
		render = func(call *effect.Call, item string) ([]byte, error) {
			return []byte("to " + item + " as " + call.Key), nil
		}
	}
	list := &jobs.List{Items: compile(b.tb, source, expression.Texts), Render: render}
	return b.changed(func(r *jobs.Route) { r.List = list })
}

// Each recipient is an effect of its own: sent once, and alone in its failure.
func TestBulk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := *recipients
	b.bulk(n)
	s := &sink{}
	s.answer = func(_ context.Context, c *effect.Call) effect.Result {
		if !strings.HasSuffix(string(c.Rendered), " as "+c.Key) {
			return effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
		}
		if strings.HasPrefix(string(c.Rendered), "to r7@") {
			return effect.Result{Outcome: effect.Dead, Reason: reasons.Mail5xx}
		}
		return effect.Result{Outcome: effect.Done}
	}
	began := time.Now()
	b.client(jobs.Config{Senders: senders(s), Routes: b.listed("body.to", nil)})
	b.within(2*time.Minute, "all recipients", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE item > 0 AND state IN ('done', 'dead')`) == n
	})
	t.Logf("%d recipients in %s", n, time.Since(began))
	if dead := b.count(`SELECT count(*) FROM effect WHERE state = 'dead'`); dead != 1 {
		t.Errorf("%d are dead, want the one", dead)
	}
	if calls, keys := int(s.calls.Load()), len(s.ledger); calls != n || keys != n {
		t.Errorf("%d calls under %d keys for %d recipients", calls, keys, n)
	}
	b.eventually("the list itself done", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE item = 0 AND state = 'done' AND result = $1`, fmt.Appendf(nil, `{"items":%d}`, n)) == 1
	})
}

// A run that ends in the middle is gone on with, with the list as it was, however
// the route reads by then.
func TestBulkGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.bulk(1200)
	store := b.store("node-1")
	claim := b.claim(store, id)
	list, err := json.Marshal(strings.Split(strings.TrimSuffix(strings.Repeat("same@example.com,", 1200), ","), ","))
	if err != nil {
		t.Fatal(err)
	}
	if mine, err := store.StartSend(t.Context(), claim, list, false); !mine || err != nil {
		t.Fatal(mine, err)
	}
	broken := errors.New("the process ends here")
	_, err = store.Expand(t.Context(), claim, 1200, func(item int) ([]byte, error) {
		if item == 700 {
			return nil, broken
		}
		return []byte("to same@example.com as " + inbox.ItemKey(claim, item)), nil
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if n := b.count(`SELECT count(*) FROM effect WHERE item > 0`); n != 500 {
		t.Fatalf("%d items were written, want the first chunk", n)
	}
	b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s' WHERE item = 0`)
	b.sweep(b.sweeper(nil))
	s := &sink{answer: func(_ context.Context, c *effect.Call) effect.Result {
		if !strings.HasPrefix(string(c.Rendered), "to same@") {
			return effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
		}
		return effect.Result{Outcome: effect.Done}
	}}
	b.client(jobs.Config{Senders: senders(s), Routes: b.listed("body.to", nil)})
	b.within(time.Minute, "all done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == 1201 })
	if calls := int(s.calls.Load()); calls != 1200 || len(s.ledger) != 1200 {
		t.Errorf("%d calls under %d keys", calls, len(s.ledger))
	}
}

func TestListsOfOneAndOfNone(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]struct {
		state  inbox.EffectState
		reason inbox.Reason
		calls  int64
	}{
		`body.to[0]`:               {inbox.EffectDone, "", 1},
		`[body.to[0]]`:             {inbox.EffectDone, "", 1},
		`body.to.filter(x, false)`: {inbox.EffectSkipped, inbox.ReasonCondition, 0},
		`body.lost`:                {inbox.EffectDead, reasons.Mapping, 0},
		`[body.to[0], 7]`:          {inbox.EffectDead, reasons.Mapping, 0},
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.bulk(2)
			s := &sink{}
			b.client(jobs.Config{Senders: senders(s), Routes: b.listed(source, nil)})
			b.eventuallyState(id, want.state)
			if r := b.row(id); r.Reason != string(want.reason) || s.calls.Load() != want.calls || b.count(`SELECT count(*) FROM effect`) != 1 {
				t.Errorf("reason %q, %d calls", r.Reason, s.calls.Load())
			}
		})
	}
}
