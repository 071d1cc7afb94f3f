package jobs_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
)

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
			// Before anybody works: the only sweep would leave out an item that the list's worker has locked.
			b.sweep(b.sweeper(nil))
			b.client(jobs.Config{Senders: senders(p.sink()), Routes: routes})
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
