package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// news is the body of a batch.
type news struct {
	Campaign string   `json:"campaign"`
	To       []string `json:"to"`
}

// batch records an event that mails a campaign to some recipients.
func (b *bundle) batch(campaign string, to ...string) inbox.ID {
	b.tb.Helper()
	id := b.admit(once, 1)[0]
	body, err := json.Marshal(news{campaign, to})
	if err != nil {
		b.tb.Fatal(err)
	}
	b.exec(`INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{}', $2)`, id, body)
	b.exec(`UPDATE inbox_event SET body_id = $1, body_offset = 0, body_length = $2 WHERE id = $1`, id, len(body))
	return id
}

// campaigns is the route of the batches; its key is the campaign, unless keyed is false.
func (b *bundle) campaigns(keyed bool) map[int32]jobs.Route {
	b.tb.Helper()
	routes := b.listed("body.to", nil)
	if !keyed {
		return routes
	}
	for id, r := range routes {
		r.Key = &expression.Recipe{Version: 1, Fields: []*expression.Program{compile(b.tb, "body.campaign", expression.Value)}}
		routes[id] = r
	}
	return routes
}

// post counts what each recipient was sent. It is asked by the text of the message.
type post struct {
	mu     sync.Mutex
	sent   map[string]int
	answer func(to string) effect.Result
}

func (p *post) sink() *sink {
	return &sink{answer: func(_ context.Context, c *effect.Call) effect.Result {
		to, _, _ := strings.Cut(strings.TrimPrefix(string(c.Rendered), "to "), " as ")
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.answer != nil {
			if r := p.answer(to); r.Outcome != effect.Done {
				return r
			}
		}
		if p.sent == nil {
			p.sent = map[string]int{}
		}
		p.sent[to]++
		return effect.Result{Outcome: effect.Done}
	}}
}

func (p *post) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.sent)
}

func (b *bundle) nothingUnderWay() {
	b.tb.Helper()
	b.within(time.Minute, "nothing to be under way", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE state IN ('pending', 'claimed', 'retry', 'held')`) == 0
	})
}

func wantSent(tb testing.TB, p *post, want map[string]int) {
	tb.Helper()
	if got := p.counts(); !maps.Equal(got, want) {
		tb.Errorf("sent %v, want %v", got, want)
	}
}

// A recipient of a recipe is mailed once: twice in one list, in two batches, under two
// spellings, alone in a list, and at the same time. One that only the second batch names
// gets theirs.
func TestEachRecipientHasTheirOwnKey(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]time.Duration{"for as long as keys are kept": 0, "within an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.keys = keyWindows{keep: 24 * time.Hour, within: within}
			p := &post{}
			b.batch("may", "a@x.example", "a@x.example", "b@x.example")
			b.batch("may", "b@x.example", "c@x.example", "Ann <a@X.example>")
			b.batch("may", "d@x.example")
			b.batch("may", "d@X.EXAMPLE")
			b.batch("may", "d@x.example", "e@x.example")
			b.batch("june", "a@x.example", "d@x.example")
			b.client(jobs.Config{Senders: senders(p.sink()), Routes: b.campaigns(true)})
			b.nothingUnderWay()
			got := map[string]int{}
			for to, n := range p.counts() {
				to = strings.ToLower(to)
				if to == "ann <a@x.example>" {
					to = "a@x.example"
				}
				got[to] += n
			}
			want := map[string]int{"a@x.example": 2, "b@x.example": 1, "c@x.example": 1, "d@x.example": 2, "e@x.example": 1}
			if !maps.Equal(got, want) {
				t.Errorf("sent %v, want %v", got, want)
			}
			if n := b.count(`SELECT count(*) FROM effect e LEFT JOIN effect o ON o.id = e.duplicate_of WHERE e.state = 'duplicate' AND o.state IS DISTINCT FROM 'done'`); n != 0 {
				t.Errorf("%d duplicates of what is not done", n)
			}
		})
	}
}

// Without a recipe a recipient is mailed once for each event.
func TestRecipientsWithoutARecipe(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := &post{}
	b.batch("may", "a@x.example", "b@x.example", "a@x.example", "a@X.example")
	b.batch("may", "a@x.example", "a@x.example")
	b.client(jobs.Config{Senders: senders(p.sink()), Routes: b.campaigns(false)})
	b.nothingUnderWay()
	wantSent(t, p, map[string]int{"a@x.example": 2, "b@x.example": 1})
}

// A recipient that is no address is dead alone, and says why; a template that nobody's
// message can be made of is one dead letter.
func TestABadRecipientIsDeadAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := &post{answer: func(to string) effect.Result {
		if to == "refused@x.example" {
			return effect.Result{Outcome: effect.Dead, Reason: reasons.Mail5xx}
		}
		return effect.Result{Outcome: effect.Done}
	}}
	id := b.batch("may", "nobody", "a@x.example", "refused@x.example", "b@x.example")
	b.client(jobs.Config{Senders: senders(p.sink()), Routes: b.campaigns(true)})
	b.nothingUnderWay()
	wantSent(t, p, map[string]int{"a@x.example": 1, "b@x.example": 1})
	if got := b.row(id).State; got != string(inbox.EffectDone) {
		t.Errorf("the list is %s, want done: it is written", got)
	}
	if said := b.text(`SELECT t.excerpt FROM effect e JOIN effect_attempt t ON t.effect_id = e.id WHERE e.item = 1 AND e.state = 'dead' AND e.reason = 'mapping_failed'`); !strings.Contains(said, "not an address") {
		t.Errorf("the bad one says %q", said)
	}
}

// What nobody's message can be made of kills the list before anything is written.
func TestAListThatCannotBeRendered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := &post{}
	id := b.batch("may", "nobody", "a@x.example", "b@x.example")
	routes := b.campaigns(true)
	routes[b.routes[once]].List.Render = func(*effect.Call, string) ([]byte, error) { return nil, errors.New("the template is wrong") }
	b.client(jobs.Config{Senders: senders(p.sink()), Routes: routes})
	b.nothingUnderWay()
	if r := b.row(id); r.State != string(inbox.EffectDead) || b.count(`SELECT count(*) FROM effect`) != 1 {
		t.Errorf("%+v, want one dead letter", r)
	}
}

// A dead item gives its key to the next batch, and comes back as the duplicate of that.
func TestADeadRecipientGivesTheKeyAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	refused := true
	p := &post{answer: func(to string) effect.Result {
		mu.Lock()
		defer mu.Unlock()
		if refused && to == "a@x.example" {
			return effect.Result{Outcome: effect.Dead, Reason: reasons.Mail5xx}
		}
		return effect.Result{Outcome: effect.Done}
	}}
	store := b.store("node-1")
	r := b.replays(replay.Config{Store: store})
	b.batch("may", "a@x.example", "b@x.example")
	first := b.client(jobs.Config{Store: store, Replays: r, Senders: senders(p.sink()), Routes: b.campaigns(true)})
	b.nothingUnderWay()
	b.stop(first)
	mu.Lock()
	refused = false
	mu.Unlock()
	b.batch("may", "a@x.example", "c@x.example")
	b.client(jobs.Config{Store: store, Replays: r, Senders: senders(p.sink()), Routes: b.campaigns(true)})
	b.nothingUnderWay()
	wantSent(t, p, map[string]int{"a@x.example": 1, "b@x.example": 1, "c@x.example": 1})
	start(t, r, plan(t, r, everything(), replay.Options{}))
	b.within(time.Minute, "the replayed item to be a duplicate", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE state = 'duplicate'`) == 1
	})
	wantSent(t, p, map[string]int{"a@x.example": 1, "b@x.example": 1, "c@x.example": 1})
}

// A replay of a list sends to those alone who did not get it, also with the template
// mended and under new keys.
func TestAReplayOfAListSendsToTheOthers(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]replay.Options{"as it is": {}, "with new keys": {NewKey: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var mu sync.Mutex
			down := true
			p := &post{answer: func(to string) effect.Result {
				mu.Lock()
				defer mu.Unlock()
				if down && to != "a@x.example" {
					return effect.Result{Outcome: effect.Dead, Reason: reasons.Mail5xx}
				}
				return effect.Result{Outcome: effect.Done}
			}}
			store := b.store("node-1")
			r := b.replays(replay.Config{Store: store})
			routes := b.campaigns(true)
			broken := true
			list := routes[b.routes[once]].List
			render := list.Render
			list.Render = func(c *effect.Call, item string) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				if broken && item == "c@x.example" {
					return nil, errors.New("no name for this one")
				}
				return render(c, item)
			}
			b.batch("may", "a@x.example", "b@x.example", "c@x.example", "d@x.example")
			b.client(jobs.Config{Store: store, Replays: r, Senders: senders(p.sink()), Routes: routes})
			b.nothingUnderWay()
			wantSent(t, p, map[string]int{"a@x.example": 1})
			mu.Lock()
			down, broken = false, false
			mu.Unlock()
			start(t, r, plan(t, r, everything(), options))
			b.within(time.Minute, "all to be done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == 5 })
			wantSent(t, p, map[string]int{"a@x.example": 1, "b@x.example": 1, "c@x.example": 1, "d@x.example": 1})
		})
	}
}

// oldList turns the list of an event, which nobody has looked at yet, into one that an
// earlier version began: the whole list has the recipe's key, and its first items are
// written under their positions, without keys of their own.
func (b *bundle) oldList(routes map[int32]jobs.Route, id inbox.ID, campaign string, to []string, written int, state inbox.EffectState) {
	b.tb.Helper()
	list, err := json.Marshal(to)
	if err != nil {
		b.tb.Fatal(err)
	}
	route := b.routes[once]
	hash, err := routes[route].Key.Hash(&expression.Input{Body: fmt.Appendf(nil, `{"campaign":%q}`, campaign)})
	if err != nil {
		b.tb.Fatal(err)
	}
	b.exec(`INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
		SELECT $1, $2, $3, v.received_at, v.received_at + interval '1 day' FROM inbox_event v WHERE v.id = $3`, route, hash, id)
	b.exec(`UPDATE effect SET key_hash = $2, rendered = $3 WHERE id = $1`, id, hash, list)
	for i, recipient := range to[:written] {
		b.exec(`INSERT INTO effect (id, event_id, route_id, route_version, item, idempotency_key, rendered, state, next_at, finished_at)
			SELECT $1, event_id, route_id, route_version, $3, idempotency_key || '/' || $3::int, $4, $5,
				CASE WHEN $5 = 'pending' THEN now() - interval '1 hour' END, CASE WHEN $5 = 'done' THEN now() END FROM effect WHERE id = $2`,
			inbox.NewID(time.Now()), id, i+1, fmt.Appendf(nil, "to %s as %d", recipient, i+1), string(state))
	}
}

// A list that an earlier version began is finished: nobody is mailed twice, nobody is left
// out, and other batches know its recipients.
func TestAListOfAnEarlierVersionIsFinished(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]inbox.EffectState{"whose items were sent": inbox.EffectDone, "whose items wait": inbox.EffectPending} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := &post{}
			routes := b.campaigns(true)
			to := []string{"a@x.example", "b@x.example", "c@x.example", "a@x.example", "d@x.example"}
			old := b.batch("may", to...)
			b.oldList(routes, old, "may", to, 2, state)
			b.batch("may", "B@x.example", "b@x.example", "e@x.example", "c@x.example")
			b.client(jobs.Config{Senders: senders(p.sink()), Routes: routes})
			b.sweep(b.sweeper(nil))
			b.nothingUnderWay()
			want := map[string]int{"c@x.example": 1, "d@x.example": 1, "e@x.example": 1, "B@x.example": 1}
			if state == inbox.EffectPending {
				want["a@x.example"], want["b@x.example"] = 1, 1
			}
			wantSent(t, p, want)
			keys := b.count(`SELECT count(*) FROM effect WHERE event_id = $1 AND item IN (1, 2) AND idempotency_key IN ('key-' || $1::text || '/1', 'key-' || $1::text || '/2')`, old)
			if keys != 2 {
				t.Errorf("%d of the written items have their keys still, want 2", keys)
			}
		})
	}
}

// The recipients of a list that an earlier version finished, or of a single message that
// it sent, are known to a batch of today.
func TestBatchesAfterTheUpgrade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := &post{}
	routes := b.campaigns(true)
	to := []string{"a@x.example", "b@x.example", "b@x.example"}
	old := b.batch("may", to...)
	b.oldList(routes, old, "may", to, 3, inbox.EffectDone)
	b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now() WHERE id = $1`, old)
	single := b.batch("june", "a@x.example")
	b.oldList(routes, single, "june", nil, 0, "")
	b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now(), rendered = 'to a@x.example as x' WHERE id = $1`, single)
	for _, campaign := range []string{"may", "june"} {
		b.batch(campaign, "a@x.example", "c@x.example")
		b.batch(campaign, "c@x.example", "d@x.example", "b@x.example")
		b.batch(campaign, "a@x.example")
	}
	b.client(jobs.Config{Senders: senders(p.sink()), Routes: routes})
	b.nothingUnderWay()
	wantSent(t, p, map[string]int{"b@x.example": 1, "c@x.example": 2, "d@x.example": 2}) // b of june
}

// A run that ends in the middle is gone on with where it ended, with the list as it was,
// however the route reads by then.
func TestAListGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := 1200
	to := make([]string, n)
	for i := range to {
		to[i] = fmt.Sprintf("r%d@example.com", i+1)
	}
	id := b.batch("may", to...)
	store := b.store("node-1")
	claim := b.claim(store, id)
	list, err := json.Marshal(to)
	if err != nil {
		t.Fatal(err)
	}
	if mine, err := store.StartSend(t.Context(), claim, inbox.SendStart{Rendered: list}); !mine || err != nil {
		t.Fatal(mine, err)
	}
	written, err := store.WriteItems(t.Context(), claim, itemsOf(claim, to[:inbox.MaxItemsWritten]))
	if err != nil || !written.Held {
		t.Fatal(written, err)
	}
	if last, err := store.LastItem(t.Context(), claim); err != nil || last != inbox.MaxItemsWritten {
		t.Fatalf("the list is written up to %d, want %d: %v", last, inbox.MaxItemsWritten, err)
	}
	b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s' WHERE item = 0`)
	b.sweep(b.sweeper(nil))
	p := &post{}
	var mu sync.Mutex
	var rendered []string
	routes := b.listed("['another@example.com', 'list@example.com']", func(_ *effect.Call, item string) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		rendered = append(rendered, item)
		return []byte("to " + item + " as today"), nil
	})
	b.client(jobs.Config{Senders: senders(p.sink()), Routes: routes})
	b.within(2*time.Minute, "all done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == n+1 })
	got := p.counts()
	if len(got) != n {
		t.Errorf("%d recipients were mailed, want %d", len(got), n)
	}
	for to, times := range got {
		if times != 1 {
			t.Errorf("%s was mailed %d times", to, times)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(rendered) != n-inbox.MaxItemsWritten || slices.Contains(rendered, to[0]) {
		t.Errorf("%d were rendered in the second run, want the %d that were not written", len(rendered), n-inbox.MaxItemsWritten)
	}
}

func itemsOf(claim *inbox.Claim, to []string) []inbox.ListItem {
	items := make([]inbox.ListItem, len(to))
	for i, recipient := range to {
		items[i] = inbox.ListItem{Position: i + 1, Key: inbox.ItemKey(claim, recipient), Rendered: []byte("to " + recipient + " as before")}
	}
	return items
}

// The body of a list is decoded once for all of its items: otherwise the time that a list
// takes grows with the square of its length.
func TestTheItemsOfAListShareItsBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.batch("may", "a@x.example", "b@x.example", "c@x.example")
	var mu sync.Mutex
	decoded := map[uintptr]int{}
	p := &post{}
	routes := b.listed("body.to", func(call *effect.Call, item string) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		decoded[reflect.ValueOf(call.Payload()).Pointer()]++
		return []byte("to " + item + " as it is"), nil
	})
	b.client(jobs.Config{Senders: senders(p.sink()), Routes: routes})
	b.nothingUnderWay()
	mu.Lock()
	defer mu.Unlock()
	if len(decoded) != 1 {
		t.Errorf("the body was decoded %d times", len(decoded))
	}
}

// Two runs that write one list at the same time write each item once.
func TestTwoRunsWriteAListOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	to := []string{"a@x.example", "b@x.example", "c@x.example"}
	id := b.batch("may", to...)
	store := b.store("node-1")
	claim := b.claim(store, id)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			written, err := store.WriteItems(t.Context(), claim, itemsOf(claim, to))
			if err != nil || !written.Held {
				t.Errorf("%+v: %v", written, err)
			}
		})
	}
	group.Wait()
	if n := b.count(`SELECT count(*) FROM effect WHERE item > 0`); n != len(to) {
		t.Errorf("%d items, want %d", n, len(to))
	}
	b.exec(`UPDATE effect SET lease_token = gen_random_uuid() WHERE id = $1`, id)
	if written, err := store.WriteItems(t.Context(), claim, itemsOf(claim, to)); err != nil || written.Held {
		t.Errorf("who lost the claim writes on: %+v: %v", written, err)
	}
}
