package jobs_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/mail"
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
	list := &jobs.List{
		Items: compile(b.tb, source, expression.Texts), Meaning: mail.Recipient, Check: mail.CheckRecipient, Render: render,
		ItemOf: func(rendered []byte) (string, error) {
			to, _, _ := strings.Cut(strings.TrimPrefix(string(rendered), "to "), " as ")
			return to, nil
		},
	}
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

func TestListsOfOneAndOfNone(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]struct {
		state  inbox.EffectState
		reason reasons.Reason
		calls  int64
	}{
		`body.to[0]`:               {inbox.EffectDone, "", 1},
		`[body.to[0]]`:             {inbox.EffectDone, "", 1},
		`body.to.filter(x, false)`: {inbox.EffectSkipped, reasons.Condition, 0},
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

// An item has the number of its recipient in the list as the sender wrote it, even if recipients are repeated or cannot be sent to,
// and keeps the number in a run that continues what an earlier one wrote.
func TestItemsAreNumberedAsTheyWereSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.batch("spring", "a@a.example", "A@A.EXAMPLE <a@a.example>", "", "b@a.example", "a@a.example", "", "c@a.example", "b@a.example")
	numbers := func() string {
		return b.text(`SELECT string_agg(item || ' ' || state, ', ' ORDER BY item) FROM effect WHERE item > 0`)
	}
	const want = "1 done, 2 dead, 3 dead, 4 done, 7 done"
	cfg := jobs.Config{Routes: b.campaigns(false), Logger: slog.New(slog.DiscardHandler), Senders: senders(&sink{})}
	b.workOff(cfg)
	if got := numbers(); got != want {
		t.Errorf("the items are %s, want %s", got, want)
	}
	// As if the process had died after the third item.
	b.exec(`DELETE FROM effect WHERE item > 3`)
	b.exec(`UPDATE effect SET state = 'pending', next_at = now(), finished_at = NULL, job_id = NULL WHERE item = 0`)
	cfg.SweepEvery = 20 * time.Millisecond
	b.workOff(cfg)
	b.exec(`UPDATE effect SET state = 'pending', result = NULL, next_at = now(), finished_at = NULL WHERE item = 0`) // its number of items is read from the list
	head := b.text(`SELECT id::text FROM effect WHERE item = 0`)
	id, err := inbox.ParseID(head)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := inboxtest.Lister(b.pool).Effect(t.Context(), id); err != nil || d.List == nil || d.List.Total != 5 || d.List.Written != 5 {
		t.Errorf("the list is summed up as %+v, %v, want 5 of 5", d, err)
	}
	if got := numbers(); got != want {
		t.Errorf("written on, the items are %s, want %s", got, want)
	}
}
