package operation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/operation"
)

func TestResultSumsUp(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 3)
	for name, c := range map[string]struct {
		states    []string
		status    string // "" is in flight
		retriable bool
		next      operation.Next
	}{
		"all done":             {[]string{"done", "done"}, "done", false, operation.NextUseResult},
		"skipped is no harm":   {[]string{"done", "skipped"}, "done", false, operation.NextUseResult},
		"nothing was to do":    {[]string{"skipped"}, "done", false, operation.NextUseResult},
		"dead":                 {[]string{"dead"}, "failed", true, operation.NextResume},
		"dead for good":        {[]string{"dead!", "dead"}, "failed", false, operation.NextReplace},
		"dead beside skipped":  {[]string{"dead", "skipped"}, "failed", true, operation.NextResume},
		"some, dead for good":  {[]string{"done", "dead!"}, "partial", false, operation.NextAskOperator},
		"some":                 {[]string{"done", "dead"}, "partial", false, operation.NextResume},
		"unknown":              {[]string{"done", "dead", "indeterminate"}, "indeterminate", false, operation.NextAskOperator},
		"given up, not known":  {[]string{"done", "dead?"}, "indeterminate", false, operation.NextAskOperator},
		"pruned by a person":   {[]string{"done", "pruned"}, "partial", false, operation.NextAskOperator},
		"pruned, not known":    {[]string{"done", "pruned?"}, "indeterminate", false, operation.NextAskOperator},
		"a list was continued": {[]string{"dead parted"}, "failed", false, operation.NextAskOperator},
		"no route takes it":    {nil, "failed", false, operation.NextAskOperator},
		"one goes on":          {[]string{"done", "pending"}, "", false, ""},
		"one goes on, one not": {[]string{"indeterminate", "retry"}, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := o.Event(t, "agent:charge:"+name, c.states...)
			document, ok, err := o.Ops.Result(t.Context(), id)
			if err != nil || ok != (c.status != "") {
				t.Fatalf("%t, %v: %s", ok, err, document)
			}
			if !ok {
				return
			}
			var got struct {
				Event, Operation, Status string
				Retriable                bool
				Next                     operation.Next
				Effects                  []struct {
					Route, State string
					Result       *struct{ Charge string }
				}
			}
			if err := json.Unmarshal(document, &got); err != nil {
				t.Fatal(err)
			}
			if got.Status != c.status || got.Retriable != c.retriable || got.Next != c.next || got.Event != id.String() || got.Operation != "charge" || len(got.Effects) != len(c.states) {
				t.Errorf("%s", document)
			}
			for i, effect := range got.Effects {
				if effect.Route != fmt.Sprint("r", i) || effect.State == "done" && (effect.Result == nil || effect.Result.Charge != "ch_1") {
					t.Errorf("%s", document)
				}
			}
		})
	}
}

// Once rendered, the result is the same bytes for ever, whatever becomes of the
// effects' rows, and whoever of many asks first.
func TestResultStands(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	id := o.Event(t, "agent:charge:1", "done")
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			document, ok, err := o.Ops.Result(t.Context(), id)
			if err != nil || !ok {
				t.Errorf("%t, %v", ok, err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[string(document)]++
		})
	}
	wg.Wait()
	o.Settle(t, id, "dead")
	document, _, err := o.Ops.Result(t.Context(), id)
	seen[string(document)]++
	if err != nil || len(seen) != 1 {
		t.Errorf("%d different results, %v: %v", len(seen), err, seen)
	}
	storetest.Exec(t, o.Pool, `DELETE FROM effect`)
	if again, ok, err := o.Ops.Result(t.Context(), id); err != nil || !ok || string(again) != string(document) {
		t.Errorf("with the effects pruned: %t, %v: %s", ok, err, again)
	}
}

// A caller who is told that it failed, or in part, is told so for ever, whatever a
// replay makes of it later; only what was unknown is told anew.
func TestResultOfFailureStands(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 2)
	for name, c := range map[string]struct {
		states []string
		first  string
		later  string
	}{
		"failed":                    {[]string{"dead", "dead"}, "failed", "failed"},
		"partial":                   {[]string{"done", "dead"}, "partial", "partial"},
		"indeterminate":             {[]string{"done", "indeterminate"}, "indeterminate", "done"},
		"given up, and not unknown": {[]string{"done", "dead?"}, "indeterminate", "done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := func(id inbox.ID) (out struct{ Status string }) {
				document, ok, err := o.Ops.Result(t.Context(), id)
				if err != nil || !ok || json.Unmarshal(document, &out) != nil {
					t.Fatalf("%t, %v: %s", ok, err, document)
				}
				return out
			}
			id := o.Event(t, "agent:charge:"+name, c.states...)
			if got := status(id).Status; got != c.first {
				t.Fatalf("%s, want %s", got, c.first)
			}
			// As a replay does it: out of the state at rest, through settle.
			effects := storetest.Store(t, o.Pool)
			rows, err := o.Pool.Query(t.Context(), `SELECT id, state, version FROM effect WHERE event_id = $1 AND state IN ('dead', 'indeterminate')`, id)
			if err != nil {
				t.Fatal(err)
			}
			var again []inbox.Settlement
			for rows.Next() {
				s := inbox.Settlement{State: inbox.EffectDone}
				if err := rows.Scan(&s.Effect, &s.From, &s.Version); err != nil {
					t.Fatal(err)
				}
				again = append(again, s)
			}
			for _, s := range again {
				if out, err := effects.Settle(t.Context(), s); err != nil || !out.Applied {
					t.Fatalf("%+v, %v", out, err)
				}
			}
			if got := status(id).Status; got != c.later {
				t.Errorf("later %s, want %s", got, c.later)
			}
		})
	}
}

// A result outlives its effects: prune takes them first. Then nobody can resume the call, and its result must not say so.
func TestResultWithoutItsEffects(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 2)
	for name, c := range map[string]struct {
		states        []string
		before, after operation.Next
	}{
		"failed":  {[]string{"dead", "dead"}, operation.NextResume, operation.NextReplace},
		"partial": {[]string{"done", "dead"}, operation.NextResume, operation.NextAskOperator},
		"done":    {[]string{"done", "done"}, operation.NextUseResult, operation.NextUseResult},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := o.Event(t, "agent:charge:"+name, c.states...)
			result := func() map[string]any {
				document, ok, err := o.Ops.Result(t.Context(), id)
				var out map[string]any
				if err != nil || !ok || json.Unmarshal(document, &out) != nil {
					t.Fatalf("%t, %v: %s", ok, err, document)
				}
				return out
			}
			before := result()
			if before["next"] != string(c.before) {
				t.Fatalf("next is %v, want %s", before["next"], c.before)
			}
			if _, err := o.Pool.Exec(t.Context(), `DELETE FROM effect WHERE event_id = $1`, id); err != nil {
				t.Fatal(err)
			}
			after := result()
			if after["next"] != string(c.after) || after["retriable"] != false {
				t.Errorf("without effects: next is %v, retriable %v, want %s", after["next"], after["retriable"], c.after)
			}
			for _, changed := range []string{"next", "retriable", "detail"} {
				delete(before, changed)
				delete(after, changed)
			}
			if !reflect.DeepEqual(before, after) {
				t.Errorf("without effects the result is\n%v, want\n%v", after, before)
			}
		})
	}
}

// What became several is not at rest before all of them are, and it is they who
// say what happened.
func TestResultOfAList(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	for name, c := range map[string]struct {
		ends   []string
		status string
	}{
		"all sent":  {[]string{"done", "done", "done"}, "done"},
		"some sent": {[]string{"done", "dead", "done"}, "partial"},
		"none sent": {[]string{"dead", "dead", "dead"}, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := o.Event(t, "agent:mail:"+name, "done") // the list itself
			for i := range c.ends {
				storetest.Exec(t, o.Pool, `INSERT INTO effect (id, event_id, route_id, route_version, item, idempotency_key, state, next_at)
					VALUES ($1, $2, $3, 1, $4, 'key', 'pending', now())`, inbox.NewID(time.Now()), id, o.Routes[0], i+1)
			}
			for i, end := range c.ends {
				if document, ok, err := o.Ops.Result(t.Context(), id); ok || err != nil {
					t.Fatalf("%d of %d have settled: %s, %v", i, len(c.ends), document, err)
				}
				storetest.Exec(t, o.Pool, `UPDATE effect SET state = $3, next_at = NULL, finished_at = CASE WHEN $3 = 'done' THEN now() END, reason = 'smtp_5xx'
					WHERE event_id = $1 AND item = $2`, id, i+1, end)
			}
			var got struct {
				Status  string
				Effects []struct{}
			}
			document, ok, err := o.Ops.Result(t.Context(), id)
			if err != nil || !ok || json.Unmarshal(document, &got) != nil || got.Status != c.status || len(got.Effects) != len(c.ends)+1 {
				t.Errorf("%t, %v: %s", ok, err, document)
			}
		})
	}
}

// Who waits is answered by a poll if the effect settles elsewhere, and at once
// if it settles here; nobody waits longer than he asked for.
func TestAwait(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	await := func(ops *operation.Store, id inbox.ID, atMost time.Duration) <-chan bool {
		out := make(chan bool, 1)
		go func() {
			_, ok, err := ops.Await(t.Context(), id, atMost)
			out <- ok && err == nil
		}()
		return out
	}
	elsewhere := o.Event(t, "agent:charge:1", "pending")
	var all []<-chan bool
	for range 50 {
		all = append(all, await(o.Ops, elsewhere, 20*time.Second))
	}
	inboxtest.Until(t, "somebody waits", func() bool { return o.Ops.Waiting() == 1 })
	o.Settle(t, elsewhere, "done")
	for _, one := range all {
		if !<-one {
			t.Error("somebody waited in vain")
		}
	}

	slow, err := operation.New(operation.Config{Pool: o.Pool, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := slow.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	here := o.Event(t, "agent:charge:2", "pending")
	waiting := await(slow, here, 20*time.Second)
	inboxtest.Until(t, "somebody waits", func() bool { return slow.Waiting() == 1 })
	o.Settle(t, here, "done")
	inboxtest.Until(t, "the signal is heard", func() bool {
		slow.Settled(here)
		return len(waiting) > 0
	})
	if !<-waiting {
		t.Error("the signal was no result")
	}

	if _, ok, err := o.Ops.Await(t.Context(), o.Event(t, "agent:charge:3", "pending"), 30*time.Millisecond); ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
	stopping := await(slow, o.Event(t, "agent:charge:4", "pending"), time.Hour)
	inboxtest.Until(t, "somebody waits", func() bool { return slow.Waiting() == 1 })
	if err := slow.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	inboxtest.Until(t, "the stop lets go", func() bool { return len(stopping) > 0 })
	if <-stopping {
		t.Error("a stop is no result")
	}
}

// An effect whose key another one owns ends as its owner does: each call is an
// event of its own and tells the owner's result.
func TestResultOfADuplicateIsItsOwners(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	owner := o.Event(t, "agent:charge:1", "pending")
	second := o.Event(t, "agent:charge:2", "pending")
	storetest.Exec(t, o.Pool, `UPDATE effect SET state = 'duplicate', next_at = NULL, finished_at = now(),
		duplicate_of = (SELECT id FROM effect WHERE event_id = $2) WHERE event_id = $1`, second, owner)
	if document, ok, err := o.Ops.Result(t.Context(), second); ok || err != nil {
		t.Errorf("the owner goes on, and yet: %s, %v", document, err)
	}
	status := func() (out struct {
		Status  string
		Effects []struct {
			State, Reason string
		}
	}) {
		document, ok, err := o.Ops.Result(t.Context(), second)
		if !ok || err != nil || json.Unmarshal(document, &out) != nil {
			t.Fatalf("%t, %v: %s", ok, err, document)
		}
		return out
	}
	o.Settle(t, owner, "indeterminate")
	if s := status(); s.Status != "indeterminate" || s.Effects[0].State != "duplicate" || s.Effects[0].Reason != "status_410" {
		t.Errorf("%+v", s)
	}
	// What the owner is found to be, its duplicates are.
	var id inbox.ID
	if err := o.Pool.QueryRow(t.Context(), `SELECT id FROM effect WHERE event_id = $1`, owner).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if err := decide.New(storetest.Store(t, o.Pool)).Resolve(t.Context(), decide.Resolve{Effect: id, As: decide.ResolveDone, Actor: "ann", Reason: "seen"}); err != nil {
		t.Fatal(err)
	}
	if s := status(); s.Status != "done" {
		t.Errorf("%+v", s)
	}
}

func TestFindIsOfTheCredential(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	mine := o.Event(t, "agent:charge:1", "done")
	theirs := o.Event(t, "agent2:charge:1", "done")
	for _, c := range []struct {
		credential, ref string
		want            inbox.ID
	}{
		{"agent", mine.String(), mine},
		{"agent", "agent:charge:1", mine},
		{"agent", theirs.String(), inbox.ID{}},
		{"agent", "agent2:charge:1", inbox.ID{}},
		{"agent2", theirs.String(), theirs},
		{"agent", "nothing\x00", inbox.ID{}},
	} {
		got, err := o.Ops.Find(t.Context(), o.Source, c.credential, c.ref)
		if got != c.want || c.want.IsZero() != errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("%s asks for %q: %s, %v", c.credential, c.ref, got, err)
		}
	}
}

// An event without effects is not done: a route that took it made some, which are pruned, or no route took it, and what was made
// for it since counts. Where nothing is known nothing is stored, and a stored result stays what it was.
func TestAnEventWithoutEffectsIsNotDone(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	for name, c := range map[string]struct {
		state  []string
		before string // a change of the event before anybody asks
		status string
		stored int
		next   operation.Next
	}{
		"pruned before anybody asked":        {[]string{"done"}, `DELETE FROM effect WHERE event_id = $1`, "indeterminate", 0, operation.NextAskOperator},
		"only its number was taken":          {[]string{"skipped"}, `WITH f AS (UPDATE effect SET filtered = true WHERE event_id = $1) UPDATE inbox_event SET admission = 'unrouted' WHERE id = $1`, "failed", 1, operation.NextAskOperator},
		"no route took it, and a replay did": {[]string{"done"}, `UPDATE inbox_event SET admission = 'unrouted' WHERE id = $1`, "done", 1, operation.NextUseResult},
		"no route took it, a replay failed":  {[]string{"dead"}, `UPDATE inbox_event SET admission = 'unrouted' WHERE id = $1`, "failed", 1, operation.NextResume},
	} {
		id := o.Event(t, "agent:charge:"+name, c.state...)
		storetest.Exec(t, o.Pool, c.before, id)
		for range 2 {
			document, ok, err := o.Ops.Result(t.Context(), id)
			var got struct {
				Status, Detail string
				Next           operation.Next
			}
			if err := json.Unmarshal(document, &got); err != nil {
				t.Fatal(err)
			}
			if err != nil || !ok || got.Status != c.status || got.Next != c.next || (got.Detail == "") != (c.status == "done" || c.next == operation.NextResume) {
				t.Errorf("%s: %t, %v: %s", name, ok, err, document)
			}
		}
		var stored int
		if err := o.Pool.QueryRow(t.Context(), `SELECT count(*) FROM operation_result WHERE event_id = $1`, id).Scan(&stored); err != nil || stored != c.stored {
			t.Errorf("%s: %d results are stored, %v", name, stored, err)
		}
	}
	id := o.Event(t, "agent:charge:kept", "done")
	before, _, err := o.Ops.Result(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, o.Pool, `DELETE FROM effect WHERE event_id = $1`, id)
	if after, ok, err := o.Ops.Result(t.Context(), id); !ok || err != nil || string(after) != string(before) {
		t.Errorf("a stored result is %t, %v: %s after its effects were pruned, and was %s", ok, err, after, before)
	}
}
