package decide_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
)

// After an outage there are hundreds of unknown outcomes: one decision ends them, each audited, and a
// run that is cut short goes on with the rest and decides nothing twice.
func TestResolveMany(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	effects, lister := storetest.Store(t, o.Pool), inboxtest.Lister(o.Pool)
	const many = 450
	for i := range many {
		o.Event(t, fmt.Sprint("agent:charge:", i), "indeterminate")
	}
	o.Event(t, "agent:charge:dead", "dead")
	groups, err := inboxtest.Rows(lister.UnknownGroups(t.Context(), read.UnknownFilter{Route: "r0"}))
	if err != nil || len(groups) != 1 || groups[0].Count != many || groups[0].Source != "agents" || groups[0].Target != "t" {
		t.Fatalf("%+v, %v", groups, err)
	}
	for _, f := range []read.UnknownFilter{{Source: "other"}, {Route: "other"}, {Target: "other"}, {Type: "other"}, {Until: groups[0].First.Add(-1e9)}} {
		if found, err := lister.Unknown(t.Context(), f, many); err != nil || len(found) != 0 {
			t.Errorf("%+v found %d, %v", f, len(found), err)
		}
	}
	found, err := lister.Unknown(t.Context(), read.UnknownFilter{Source: "agents"}, 1000)
	if err != nil || len(found) != many {
		t.Fatalf("%d found, %v", len(found), err)
	}
	// One is decided by somebody else meanwhile.
	if err := decide.New(effects).Resolve(t.Context(), decide.Resolve{Effect: found[3].Effect, As: decide.ResolveDone, Actor: "bob", Reason: "seen"}); err != nil {
		t.Fatal(err)
	}
	decision := decide.ResolveMany{Effects: found, As: decide.ResolveResend, Actor: "ann", Reason: "the bank has none of them"}

	// Cut short after its first transaction.
	ctx, cancel := context.WithCancel(t.Context())
	decision.Progress = func(done, of int) {
		if done >= of {
			t.Errorf("%d of %d in one transaction: it is not bounded", done, of)
		}
		cancel()
	}
	first, err := decide.New(effects).ResolveMany(ctx, decision)
	if !errors.Is(err, context.Canceled) || first.Resolved == 0 || first.Looked() >= many || first.Changed != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	decision.Progress = nil
	second, err := decide.New(effects).ResolveMany(t.Context(), decision)
	if err != nil || first.Resolved+second.Resolved != many-1 || second.Looked() != many {
		t.Fatalf("%+v, then %+v, %v", first, second, err)
	}
	var pending, versions, jobs, audited int
	err = o.Pool.QueryRow(t.Context(), `
		SELECT count(*) FILTER (WHERE e.state = 'pending'), count(*) FILTER (WHERE e.version = 2), count(DISTINCT j.id),
			(SELECT count(DISTINCT object) FROM audit WHERE action = 'effect.resolve.resend' AND actor = 'ann'
				AND before ->> 'state' = 'indeterminate' AND after ->> 'state' = 'pending')
		FROM effect e LEFT JOIN river_job j ON j.id = e.job_id`).Scan(&pending, &versions, &jobs, &audited)
	if err != nil || pending != many-1 || versions != many-1 || jobs != many-1 || audited != many-1 {
		t.Errorf("%d pending at %d new versions with %d jobs and %d audit entries, want %d of each, %v", pending, versions, jobs, audited, many-1, err)
	}
	var dead int
	if err := o.Pool.QueryRow(t.Context(), `SELECT count(*) FROM effect WHERE state = 'dead'`).Scan(&dead); err != nil || dead != 1 {
		t.Errorf("%d dead letters, want the one that was, %v", dead, err)
	}
	if _, err := decide.New(effects).ResolveMany(t.Context(), decide.ResolveMany{As: decide.ResolveDone, Actor: "ann"}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
}
