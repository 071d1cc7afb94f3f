package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// letters are events of one sequence, each with its recipients.
func (b *bundle) letters(recipients ...int) []inbox.ID {
	b.tb.Helper()
	numbers := make([]string, len(recipients))
	for i := range recipients {
		numbers[i] = fmt.Sprint(i + 1)
	}
	ids := b.sequenced(once, "letters", numbers...)
	for i, id := range ids {
		to := make([]string, recipients[i])
		for r := range to {
			to[r] = fmt.Sprintf("n%d-r%d@example.com", i+1, r+1)
		}
		body, err := json.Marshal(map[string]any{"to": to})
		if err != nil {
			b.tb.Fatal(err)
		}
		b.exec(`INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{}', $2)`, id, body)
		b.exec(`UPDATE inbox_event SET body_id = $1, body_offset = 0, body_length = $2 WHERE id = $1`, id, len(body))
	}
	return ids
}

// office writes down who was written to, and answers by how often it has been asked.
type office struct {
	mu     sync.Mutex
	sent   []string
	asked  map[string]int
	answer func(to string, asked int) effect.Result
}

func (o *office) sink() *sink {
	return &sink{answer: func(_ context.Context, c *effect.Call) effect.Result {
		to, _, _ := strings.Cut(strings.TrimPrefix(string(c.Rendered), "to "), "@")
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.asked == nil {
			o.asked = map[string]int{}
		}
		o.asked[to]++
		result := effect.Result{Outcome: effect.Done}
		if o.answer != nil {
			result = o.answer(to, o.asked[to])
		}
		if result.Outcome == effect.Done {
			o.sent = append(o.sent, to)
		}
		return result
	}}
}

func (o *office) letters() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.sent)
}

// What follows a list in its sequence waits for all of its items, also for one that
// has to be tried again.
func TestAListHasOnePlace(t *testing.T) {
	t.Parallel()
	for _, mode := range []sequence.Mode{sequence.Contiguous, sequence.Arrival} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.ordered(once, sequence.Policy{Mode: mode, Start: "1"})
			ids := b.letters(3, 1, 2)
			o := &office{answer: func(to string, asked int) effect.Result {
				if to == "n1-r2" && asked < 4 {
					return effect.Result{Outcome: effect.Retry, Reason: reasons.Mail4xx}
				}
				return effect.Result{Outcome: effect.Done}
			}}
			b.client(jobs.Config{Store: store, Senders: senders(o.sink()), Routes: b.listed("body.to", nil)})
			b.eventually("all done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == len(ids)+5 })
			sent := o.letters()
			if len(sent) != 6 || !slices.IsSortedFunc(sent, func(x, y string) int { return strings.Compare(x[:2], y[:2]) }) {
				t.Errorf("written to %q, want all of 1, of 2 and of 3", sent)
			}
			if n := b.count(`SELECT count(*) FROM effect_attempt WHERE effect_id = $1`, ids[0]); n != 1 {
				t.Errorf("%d attempts of the list, want the one that ended it", n)
			}
		})
	}
}

// A list of which an item is dead is dead, and does to those behind it what the
// policy says; once the item is mended, a replay of both lets them go on. Where they
// went on before, the list is late.
func TestAListOfADeadItem(t *testing.T) {
	t.Parallel()
	for onDead, states := range map[sequence.OnDead][2]inbox.EffectState{
		sequence.DeadBlock: {inbox.EffectHeld, inbox.EffectDone}, sequence.DeadSkip: {inbox.EffectDone, inbox.EffectSuperseded},
	} {
		t.Run(string(onDead), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.ordered(once, sequence.Policy{Mode: sequence.Contiguous, Start: "1", OnDead: onDead})
			ids := b.letters(2, 1)
			o := &office{answer: func(to string, asked int) effect.Result {
				if to == "n1-r2" && asked == 1 {
					return effect.Result{Outcome: effect.Dead, Reason: reasons.Mail5xx}
				}
				return effect.Result{Outcome: effect.Done}
			}}
			r := b.replays(replay.Config{Store: store})
			b.client(jobs.Config{Store: store, Replays: r, Senders: senders(o.sink()), Routes: b.listed("body.to", nil)})
			b.eventuallyState(ids[0], inbox.EffectDead)
			b.eventuallyState(ids[1], states[0])
			if got := b.row(ids[0]).Reason; got != string(reasons.ListItem) {
				t.Errorf("the list is dead for %q", got)
			}
			start(t, r, plan(t, r, everything(), replay.Options{}))
			b.eventuallyState(ids[0], states[1])
			b.eventuallyState(ids[1], inbox.EffectDone)
			b.eventually("each item", func() bool { return len(o.letters()) == 3 })
			if sent := o.letters(); len(sent) != 3 {
				t.Errorf("written to %q, want each once", sent)
			}
		})
	}
}

// In mode latest a list is refused, and says why; one recipient is none.
func TestAListInModeLatestIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.ordered(once, sequence.Policy{Mode: sequence.Latest})
	ids := b.letters(2)
	single := b.sequenced(once, "another", "1")[0]
	b.exec(`INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{}', '{"to":["one@example.com"]}')`, single)
	b.exec(`UPDATE inbox_event SET body_id = $1, body_offset = 0, body_length = 26 WHERE id = $1`, single)
	o := &office{}
	b.client(jobs.Config{Store: store, Senders: senders(o.sink()), Routes: b.listed("body.to", nil)})
	b.eventuallyState(ids[0], inbox.EffectDead)
	b.eventuallyState(single, inbox.EffectDone)
	said := b.text(`SELECT excerpt FROM effect_attempt WHERE effect_id = $1`, ids[0])
	if got := b.row(ids[0]).Reason; got != string(reasons.ListOrder) || !strings.Contains(said, "body.to gives 2") || len(o.letters()) != 1 {
		t.Errorf("dead for %q: %s; written to %q, want the single one alone", got, said, o.letters())
	}
	preview := &jobs.Previewer{Routes: b.listed("body.to", nil), Senders: map[string]effect.Sender{once: o.sink()}, Stored: store.Routes()}
	claim := &inbox.Claim{RouteID: b.routes[once], Event: inbox.ClaimedEvent{Body: []byte(`{"to":["a@example.com","b@example.com"]}`)}}
	if p := preview.Preview(claim); p.State != inbox.EffectDead || p.Reason != reasons.ListOrder || p.Said != said {
		t.Errorf("a preview says %+v", p)
	}
}
