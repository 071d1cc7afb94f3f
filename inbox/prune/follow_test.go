package prune_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// The row that says which call follows which goes with the last of the two events.
func TestPruneKeepsWhoFollowsWhom(t *testing.T) {
	t.Parallel()
	const old, young = 1000 * 24 * time.Hour, time.Hour
	p := storetest.NewPast(t)
	p.Register(t)
	rows := map[string]inbox.ID{}
	for name, c := range map[string]struct {
		parent, child time.Duration
		state         inbox.EffectState // of the parent
	}{
		"both are old":           {old, old, inbox.EffectDone},
		"the child is young":     {old, young, inbox.EffectDone},
		"the parent is a letter": {old, old, inbox.EffectDead},
	} {
		parent, child := p.Deliver(t, "parent: "+name, c.parent, c.state), p.Deliver(t, "child: "+name, c.child, inbox.EffectDone)
		p.Exec(t, `INSERT INTO operation_follow (child, parent, kind, intent_hash, parent_status) VALUES ($1, $2, 'resumes', sha256('i'), 'failed')`, child, parent)
		rows[name] = child
	}
	// An effect of a call stays while another one of it is dead: both are its result.
	mixed := p.Deliver(t, "mixed", old, inbox.EffectDone)
	p.Exec(t, `INSERT INTO effect (id, event_id, route_id, item, state, idempotency_key, route_version, reason)
		SELECT gen_random_uuid(), event_id, route_id, 1, 'dead', 'item', 1, 'status_410' FROM effect WHERE event_id = $1`, mixed)
	p.Prune(t)
	for name, want := range map[string]int{"both are old": 0, "the child is young": 1, "the parent is a letter": 1} {
		if n := p.Count(t, `SELECT count(*) FROM operation_follow WHERE child = $1`, rows[name]); n != want {
			t.Errorf("%s: %d rows, want %d", name, n, want)
		}
	}
	if n := p.Count(t, `SELECT count(*) FROM effect WHERE event_id = $1`, mixed); n != 2 {
		t.Errorf("%d of 2 effects are left beside a dead one", n)
	}
}
