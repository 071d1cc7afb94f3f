package jobs_test

import (
	"context"
	"encoding/hex"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A run learns that another effect owns the key, and its process is killed before it writes that down. The next run reaches
// nothing and is put back. The run after that must ask again, because only the database knows who owns the key. A campaign
// of crashes on a busy machine found the second effect carried out.
func TestAPutBackDoesNotForgetTheOwner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := &sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result { return effect.Result{Outcome: effect.Done} }}
	cfg := jobs.Config{Routes: b.keyed("event.type"), Senders: senders(s)}
	owner := b.admit(repeatable, 1)[0]
	node := b.client(cfg)
	b.eventuallyState(owner, inbox.EffectDone)
	b.stop(node)
	hash, err := hex.DecodeString(b.text(`SELECT encode(key_hash, 'hex') FROM effect_key`))
	if err != nil {
		t.Fatal(err)
	}

	later := b.admit(repeatable, 1)[0]
	store := b.store("node-1")
	if got, err := store.Own(t.Context(), b.claim(store, later), hash); err != nil || got.Effect != owner {
		t.Fatalf("the owner is %+v, %v", got, err)
	}
	b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s' WHERE id = $1`, later)
	b.sweep(b.sweeper(nil))
	b.exec(`UPDATE effect SET next_at = now() WHERE id = $1`, later)
	claim := b.claim(store, later)
	if claim.Attempt != 2 || claim.Trigger != inbox.TriggerSweep || claim.KeyHash == nil {
		t.Fatalf("the run after the sweep: %+v", claim)
	}
	if _, err := store.Settle(t.Context(), inbox.Settlement{
		Effect: later, Token: claim.Token, Trigger: claim.Trigger, StartedAt: claim.StartedAt, RouteID: claim.RouteID,
		State: inbox.EffectRetry, Reason: reasons.Unavailable,
	}); err != nil {
		t.Fatal(err)
	}

	if n := b.count(`SELECT count(*) FROM effect WHERE id = $1 AND unfinished`, later); n != 1 {
		t.Error("nothing says any more that the end of a run was not seen")
	}
	b.client(cfg)
	b.eventually("the later effect to end", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE id = $1 AND state IN ('done', 'duplicate')`, later) == 1
	})
	if n := b.count(`SELECT count(*) FROM effect WHERE id = $1 AND state = 'duplicate' AND duplicate_of = $2`, later, owner); n != 1 || s.calls.Load() != 1 {
		t.Errorf("the later effect is a duplicate: %d, and %d requests were sent, want 1 and 1", n, s.calls.Load())
	}
}
