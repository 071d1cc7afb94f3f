package decide_test

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	effects := storetest.Store(t, o.Pool)
	for _, c := range []struct {
		as            decide.Resolution
		action, state string
		version       int
	}{
		{decide.ResolveDone, "effect.resolve.done", "done", 1},
		{decide.ResolveResend, "effect.resolve.resend", "pending", 2},
	} {
		event := o.Event(t, "agent:charge:"+string(c.as), "indeterminate")
		var id inbox.ID
		if err := o.Pool.QueryRow(t.Context(), `SELECT id FROM effect WHERE event_id = $1`, event).Scan(&id); err != nil {
			t.Fatal(err)
		}
		if document, ok, err := o.Ops.Result(t.Context(), event); err != nil || !ok {
			t.Fatalf("%t, %v: %s", ok, err, document)
		}
		// Twenty at once: one is heard.
		var wg sync.WaitGroup
		results := make([]error, 20)
		for i := range results {
			wg.Go(func() {
				results[i] = decide.New(effects).Resolve(t.Context(), decide.Resolve{Effect: id, As: c.as, Actor: "ann", Reason: "seen at the bank"})
			})
		}
		wg.Wait()
		heard := 0
		for _, err := range results {
			if err == nil {
				heard++
			} else if !errors.Is(err, inbox.ErrState) {
				t.Error(err)
			}
		}
		var state string
		var version, jobs int
		err := o.Pool.QueryRow(t.Context(), `SELECT state, version, (SELECT count(*) FROM river_job j WHERE j.id = e.job_id) FROM effect e WHERE id = $1`, id).
			Scan(&state, &version, &jobs)
		if err != nil || heard != 1 || state != c.state || version != c.version || jobs != version-1 {
			t.Errorf("%s: %d heard, %s at %d with %d jobs, %v", c.as, heard, state, version, jobs, err)
		}
		entries, err := inboxtest.Rows(inboxtest.Lister(o.Pool).Audit(t.Context(), read.AuditFilter{Object: "effect/" + id.String()}))
		if err != nil || len(entries) != 1 || entries[0].Action != c.action || entries[0].Actor != "ann" || entries[0].Reason != "seen at the bank" {
			t.Fatalf("%+v, %v", entries, err)
		}
		var before, after struct{ State string }
		if json.Unmarshal(entries[0].Before, &before) != nil || json.Unmarshal(entries[0].After, &after) != nil ||
			before.State != "indeterminate" || after.State != c.state {
			t.Errorf("before %s, after %s", entries[0].Before, entries[0].After)
		}
		// What was unknown is known now, or in flight again.
		document, ok, err := o.Ops.Result(t.Context(), event)
		var got struct{ Status string }
		_ = json.Unmarshal(document, &got)
		if err != nil || ok != (c.state == "done") || ok && got.Status != "done" {
			t.Errorf("%t, %v: %s", ok, err, document)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	effects := storetest.Store(t, o.Pool)
	effectOf := func(event inbox.ID) (id inbox.ID) {
		if err := o.Pool.QueryRow(t.Context(), `SELECT id FROM effect WHERE event_id = $1`, event).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	unknown := effectOf(o.Event(t, "agent:charge:1", "indeterminate"))
	for name, c := range map[string]struct {
		r    decide.Resolve
		want error
	}{
		"no reason":      {decide.Resolve{Effect: unknown, As: decide.ResolveDone, Actor: "ann"}, inbox.ErrUnexplained},
		"two lines":      {decide.Resolve{Effect: unknown, As: decide.ResolveDone, Actor: "ann", Reason: "a\nb"}, inbox.ErrUnexplained},
		"no actor":       {decide.Resolve{Effect: unknown, As: decide.ResolveDone, Reason: "r"}, inbox.ErrUnexplained},
		"other version":  {decide.Resolve{Effect: unknown, As: decide.ResolveDone, Version: 2, Actor: "ann", Reason: "r"}, inbox.ErrState},
		"done already":   {decide.Resolve{Effect: effectOf(o.Event(t, "2", "done")), As: decide.ResolveDone, Actor: "ann", Reason: "r"}, inbox.ErrState},
		"dead":           {decide.Resolve{Effect: effectOf(o.Event(t, "3", "dead")), As: decide.ResolveResend, Actor: "ann", Reason: "r"}, inbox.ErrState},
		"no such effect": {decide.Resolve{Effect: inbox.NewID(time.Now()), As: decide.ResolveDone, Actor: "ann", Reason: "r"}, inbox.ErrNotFound},
	} {
		if err := decide.New(effects).Resolve(t.Context(), c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := decide.New(effects).Resolve(t.Context(), decide.Resolve{Effect: unknown, As: "maybe", Actor: "ann", Reason: "r"}); err == nil {
		t.Error("an unknown resolution was taken")
	}
	var n int
	if err := o.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM audit) + (SELECT count(*) FROM effect WHERE version > 1)`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d traces of what was refused, %v", n, err)
	}
}
