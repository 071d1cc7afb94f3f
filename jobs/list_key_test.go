package jobs_test

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

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
