package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs"
)

func TestAPlanSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	done := replay.Options{IncludeDone: true, NewKey: true}
	unknown := replay.Options{IncludeIndeterminate: true}
	discarded := replay.Options{IncludeDiscarded: true}
	for name, c := range map[string]struct {
		change  string
		options replay.Options
		action  replay.Action
		left    replay.LeftOut
	}{
		"dead":                      {``, replay.Options{}, replay.ActionReplay, ""},
		"dead, under a new key":     {``, replay.Options{NewKey: true}, replay.ActionNewKey, ""},
		"done":                      {`state = 'done', finished_at = now()`, replay.Options{}, replay.ActionNone, replay.LeftOutDone},
		"done, old key":             {`state = 'done', finished_at = now()`, replay.Options{NewKey: true}, replay.ActionNone, replay.LeftOutDone},
		"done, asked for":           {`state = 'done', finished_at = now()`, done, replay.ActionNewKey, ""},
		"indeterminate":             {`state = 'indeterminate'`, done, replay.ActionNone, replay.LeftOutIndeterminate},
		"indeterminate, asked for":  {`state = 'indeterminate'`, unknown, replay.ActionReplay, ""},
		"pending":                   {`state = 'pending', next_at = now()`, unknown, replay.ActionNone, replay.LeftOutInProgress},
		"retry":                     {`state = 'retry', next_at = now()`, done, replay.ActionNone, replay.LeftOutInProgress},
		"claimed":                   {`state = 'claimed', next_at = now(), lease_token = gen_random_uuid(), lease_until = now()`, unknown, replay.ActionNone, replay.LeftOutInProgress},
		"held":                      {`state = 'held'`, unknown, replay.ActionNone, replay.LeftOutInProgress},
		"superseded":                {`state = 'superseded', finished_at = now()`, done, replay.ActionNone, replay.LeftOutSettled},
		"skipped by a condition":    {`state = 'skipped', reason = 'condition_false', finished_at = now()`, discarded, replay.ActionNone, replay.LeftOutSettled},
		"discarded":                 {`state = 'skipped', reason = 'discarded', finished_at = now()`, replay.Options{}, replay.ActionNone, replay.LeftOutSettled},
		"discarded, asked for":      {`state = 'skipped', reason = 'discarded', finished_at = now()`, discarded, replay.ActionReplay, ""},
		"past its key's window":     {`unknown_since = now() - interval '2 h'`, replay.Options{}, replay.ActionNone, replay.LeftOutKeyWindow},
		"within its key's window":   {`unknown_since = now() - interval '1 min'`, replay.Options{}, replay.ActionReplay, ""},
		"past it, asked for":        {`unknown_since = now() - interval '2 h'`, unknown, replay.ActionReplay, ""},
		"a duplicate without owner": {`state = 'duplicate', duplicate_of = gen_random_uuid(), finished_at = now()`, unknown, replay.ActionNone, replay.LeftOutOwnerGone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.keys.window = time.Hour
			id := b.admit(repeatable, 1)[0]
			b.died()
			if c.change != "" {
				b.exec(`UPDATE effect SET ` + c.change)
			}
			r := b.replays(replay.Config{})
			p := plan(t, r, replay.Scope{IDs: []inbox.ID{id}}, c.options)
			items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{}))
			if err != nil || len(items) != 1 {
				t.Fatalf("%+v, %v", items, err)
			}
			if items[0].Action != c.action || items[0].LeftOut != c.left {
				t.Errorf("%s %s, want %s %s", items[0].Action, items[0].LeftOut, c.action, c.left)
			}
			before := b.row(id)
			start(t, r, p)
			run(t, r, p.ID)
			after := b.row(id)
			if moved := after.State == "pending" && after.Version == before.Version+1; moved != (c.action != replay.ActionNone) {
				t.Errorf("%+v became %+v", before, after)
			}
			if c.action == replay.ActionNone && (after.State != before.State || after.Version != before.Version || after.JobID != before.JobID) {
				t.Errorf("%+v became %+v, want it left alone", before, after)
			}
		})
	}
}

func TestABodyThatIsGoneIsSaid(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]string{"before the plan": "plan", "before the run": "run"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(repeatable, 1)[0]
			b.died()
			r := b.replays(replay.Config{})
			if when == "plan" {
				b.exec(`DELETE FROM inbox_body`)
			}
			p := plan(t, r, everything(), replay.Options{})
			if when == "run" {
				b.exec(`DELETE FROM inbox_body`)
			}
			start(t, r, p)
			run(t, r, p.ID)
			if row := b.row(id); row.State != "dead" || row.Version != 1 {
				t.Errorf("%+v", row)
			}
			items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{}))
			if err != nil || len(items) != 1 || (when == "plan") != (items[0].LeftOut == replay.LeftOutBodyGone) || (when == "run") != (items[0].Outcome == replay.ItemBodyGone) {
				t.Errorf("%+v, %v", items, err)
			}
		})
	}
}

func TestPlansNeedAScope(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.replays(replay.Config{})
	id := []inbox.ID{inbox.NewID(time.Now())}
	for name, ask := range map[string]replay.PlanRequest{
		"nothing said":         {Actor: actor},
		"ids and a filter":     {Actor: actor, Scope: replay.Scope{IDs: id, DeadFilter: read.DeadFilter{Source: "shop"}}},
		"all and a filter":     {Actor: actor, Scope: replay.Scope{All: true, DeadFilter: read.DeadFilter{Source: "shop"}}},
		"done, same key":       {Actor: actor, Scope: everything(), Options: replay.Options{IncludeDone: true}},
		"new routes, no judge": {Actor: actor, Scope: everything(), Options: replay.Options{NewRoutes: true}},
		"unusable, no judge":   {Actor: actor, Scope: replay.Scope{DeadFilter: read.DeadFilter{Reason: "unusable"}}},
	} {
		if _, err := r.Plan(t.Context(), ask); !errors.Is(err, replay.ErrScope) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Plan(t.Context(), replay.PlanRequest{Scope: everything()}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without an actor: %v", err)
	}
	if n := b.count(`SELECT count(*) FROM replay`); n != 0 {
		t.Errorf("%d plans were written", n)
	}
	p := plan(t, r, replay.Scope{IDs: id}, replay.Options{})
	if p.Summary.Unknown != 1 || !slices.Equal(p.Summary.Missing, []string{id[0].String()}) || p.Summary.Items != 0 {
		t.Errorf("%+v", p.Summary)
	}
}

func TestAPlanCanBeCancelledWhileItIsMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admit(repeatable, 4)
	b.died()
	r := b.replays(replay.Config{Page: 1})
	_, err := r.Plan(t.Context(), replay.PlanRequest{Scope: everything(), Actor: actor, Progress: func(items int) {
		if items != 2 {
			return
		}
		list, err := inboxtest.Rows(r.List(t.Context(), replay.Filter{State: replay.Planning}))
		if err != nil || len(list) != 1 || list[0].Summary.Items != 2 {
			t.Errorf("%+v, %v", list, err)
			return
		}
		if _, err := r.Cancel(t.Context(), replay.CancelRequest{ID: list[0].ID, Actor: actor, Reason: why}); err != nil {
			t.Error(err)
		}
	}})
	if err == nil {
		t.Fatal("the plan went on")
	}
	if n := b.count(`SELECT count(*) FROM replay WHERE state = 'cancelled'`); n != 1 {
		t.Errorf("%d cancelled", n)
	}
}

func TestPlansExpire(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admit(repeatable, 1)
	b.died()
	r := b.replays(replay.Config{})
	old, fresh := plan(t, r, everything(), replay.Options{}), plan(t, r, everything(), replay.Options{})
	b.exec(`UPDATE replay SET expires_at = now() WHERE id = $1`, old.ID)
	b.exec(`INSERT INTO replay (id, state, scope, actor, expires_at) VALUES (gen_random_uuid(), 'planning', '{}', 'gone', now())`)
	if err := r.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[inbox.ID]replay.State{old.ID: replay.Expired, fresh.ID: replay.Planned} {
		if p, err := r.Status(t.Context(), id); err != nil || p.State != want {
			t.Errorf("%+v, %v, want %s", p, err, want)
		}
	}
	if n := b.count(`SELECT count(*) FROM replay WHERE actor = 'gone' AND state = 'cancelled'`); n != 1 {
		t.Error("a plan that nobody makes any more goes on")
	}
}

func TestADuplicateActsOnItsOwner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 3)
	b.died()
	b.exec(`UPDATE effect SET state = 'duplicate', duplicate_of = $1, finished_at = now(), reason = NULL WHERE id <> $1`, ids[0])
	r := b.replays(replay.Config{Page: 1})
	p := plan(t, r, replay.Scope{IDs: ids[1:]}, replay.Options{})
	items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{}))
	if err != nil || len(items) != 2 || items[0].Effect == nil || *items[0].Effect != ids[0] || items[0].Asked == nil ||
		items[0].Action != replay.ActionReplay || items[1].LeftOut != replay.LeftOutListed {
		t.Fatalf("%+v, %v", items, err)
	}
	start(t, r, p)
	run(t, r, p.ID)
	if row := b.row(ids[0]); row.State != "pending" || row.Version != 2 {
		t.Errorf("the owner: %+v", row)
	}
	if row := b.row(ids[1]); row.State != "duplicate" || row.Version != 1 {
		t.Errorf("the duplicate: %+v", row)
	}
}

func TestAReplayFollowsItsSequence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admit(repeatable, 6)
	b.died()
	// Numbers against the order of the ids, in two sequences; two effects have none.
	b.exec(`UPDATE effect e SET sequence_key_hash = CASE WHEN n < 5 THEN sha256(convert_to((n % 2)::text, 'UTF8')) END, sequence_number = CASE WHEN n < 5 THEN 10 - n END
		FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM effect) o WHERE o.id = e.id`)
	r := b.replays(replay.Config{Page: 2, Chunk: 1})
	p := plan(t, r, everything(), replay.Options{})
	start(t, r, p)
	run(t, r, p.ID)
	got := b.text(`SELECT string_agg(coalesce(e.sequence_number::text, '-'), ' ' ORDER BY e.sequence_key_hash NULLS FIRST, i.position) FROM replay_item i JOIN effect e ON e.id = i.effect_id`)
	byHash := b.text(`SELECT string_agg(coalesce(sequence_number::text, '-'), ' ' ORDER BY sequence_key_hash NULLS FIRST, sequence_number) FROM effect`)
	if got != byHash {
		t.Errorf("positions give %s, want %s", got, byHash)
	}
	if n := b.count(`SELECT count(*) FROM (SELECT position - lag(position) OVER (ORDER BY acted_at, position) AS d FROM replay_outcome) x WHERE d < 0`); n != 0 {
		t.Error("items were not taken in their order")
	}
}

// judgeFunc is what a test says of today's configuration.
type judgeFunc func(*replay.RecordedEvent) []replay.Judgement

func (j judgeFunc) Judge(_ context.Context, r *replay.RecordedEvent) ([]replay.Judgement, error) {
	return j(r), nil
}

func TestAJudgeIsHeard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	verdicts := []replay.Verdict{
		replay.VerdictSame, replay.VerdictOtherTarget, replay.VerdictOtherBody, replay.VerdictOtherKey, replay.VerdictNoRoute, replay.VerdictCannotRender,
	}
	ids := b.admit(repeatable, len(verdicts))
	slices.SortFunc(ids, func(a, b inbox.ID) int { return bytes.Compare(a[:], b[:]) })
	b.died()
	var judged []replay.RecordedEvent
	r := b.replays(replay.Config{Page: 4, Judge: judgeFunc(func(r *replay.RecordedEvent) []replay.Judgement {
		judged = append(judged, *r)
		i := slices.Index(ids, r.Event.ID)
		return []replay.Judgement{
			{Effect: r.Effects[0].Effect, RouteID: r.Effects[0].RouteID, Verdict: verdicts[i], Diff: json.RawMessage(fmt.Sprintf(`{"verdict":%q}`, verdicts[i]))},
			{RouteID: b.routes[once], Verdict: replay.VerdictNewRoute},
		}
	})})
	before := b.dump()
	p := plan(t, r, everything(), replay.Options{})
	if after := b.dump(); after != before {
		t.Error("planning has written more than the plan")
	}
	if n := b.count(`SELECT count(*) FROM river_job`); n != 0 {
		t.Errorf("planning has made %d jobs", n)
	}
	items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{}))
	if err != nil || len(items) != len(ids) {
		t.Fatalf("%d items, %v; new routes were not asked for", len(items), err)
	}
	for i, it := range items {
		if it.Verdict != verdicts[i] || string(it.Diff) != fmt.Sprintf(`{"verdict":%q}`, verdicts[i]) {
			t.Errorf("%+v", it)
		}
		if left := it.Action == replay.ActionNone; left != (i >= 4) {
			t.Errorf("%s: %s %s", it.Verdict, it.Action, it.LeftOut)
		}
	}
	for _, e := range judged {
		if len(e.Effects) != 1 || e.Effects[0].State != inbox.EffectDead || e.Effects[0].Key == "" || !bytes.Contains(e.Delivery, e.Event.Body) || len(e.Event.Body) != 10 || e.Source != "shop" {
			t.Errorf("judged %+v", e)
		}
	}
	only, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{Verdict: replay.VerdictNoRoute}))
	if err != nil || len(only) != 1 || only[0].LeftOut != replay.LeftOutNoRoute {
		t.Errorf("%+v, %v", only, err)
	}
}

func (b *bundle) dump() string {
	b.tb.Helper()
	out := ""
	for _, name := range []string{"source", "route", "inbox_event", "inbox_body", "effect", "effect_attempt", "effect_key", "operation_result", "stream", "outbox", "refusal", "river_job"} {
		out += b.text(`SELECT string_agg(x::text, E'\n' ORDER BY x::text) FROM ` + name + ` x`)
	}
	return out
}

func TestNewRoutesGetTheirEffects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 4)
	b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now()`)
	b.exec(`DELETE FROM effect WHERE id = $1`, ids[3])
	b.exec(`UPDATE inbox_event SET admission = 'beyond_retention', admission_detail = 'too old' WHERE id = $1`, ids[3])
	b.exec(`DELETE FROM river_job`)
	says := judgeFunc(func(r *replay.RecordedEvent) []replay.Judgement {
		out := []replay.Judgement{{RouteID: b.routes[once], Verdict: replay.VerdictNewRoute}, {RouteID: b.routes[within], Verdict: replay.VerdictNewRoute}}
		for _, e := range r.Effects {
			out = append(out, replay.Judgement{Effect: e.Effect, RouteID: e.RouteID, Verdict: replay.VerdictDone})
		}
		return out
	})
	r := b.replays(replay.Config{Judge: says, Page: 2})
	p := plan(t, r, replay.Scope{DeadFilter: read.DeadFilter{Source: "shop", Route: once}}, replay.Options{NewRoutes: true})
	if p.Summary.ToDo != 3 || p.Summary.Items != 3 {
		t.Fatalf("%+v", p.Summary)
	}
	// Somebody else is faster for one, and one loses its body.
	b.exec(`INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, next_at) VALUES (gen_random_uuid(), $1, $2, 1, 'other', 'pending', now())`, ids[0], b.routes[once])
	b.exec(`UPDATE inbox_event SET body_id = gen_random_uuid() WHERE id = $1`, ids[1])
	start(t, r, p)
	run(t, r, p.ID)
	p, err := r.Status(t.Context(), p.ID)
	if err != nil || p.Summary.Outcomes[replay.ItemExists] != 1 || p.Summary.Outcomes[replay.ItemBodyGone] != 1 || p.Summary.Outcomes[replay.ItemCreated] != 1 {
		t.Fatalf("%+v, %v", p.Summary, err)
	}
	beyond := plan(t, r, replay.Scope{DeadFilter: read.DeadFilter{Reason: "beyond_retention", Route: once}}, replay.Options{})
	if beyond.Summary.ToDo != 1 {
		t.Fatalf("%+v", beyond.Summary)
	}
	start(t, r, beyond)
	run(t, r, beyond.ID)
	lister := inboxtest.Lister(b.pool)
	if rows, err := inboxtest.Rows(lister.Dead(t.Context(), read.DeadFilter{}, read.PageRequest{})); err != nil || len(rows) != 0 {
		t.Errorf("%+v, %v: an event with an effect is no dead letter", rows, err)
	}
	target := &sink{}
	b.client(jobs.Config{Replays: r, Senders: senders(target)})
	b.eventually("the new effects", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE route_id = $1 AND state = 'done' AND fresh_trigger = 'replay'`, b.routes[once]) == 2
	})
	if n := b.count(`SELECT count(*) FROM effect_attempt WHERE trigger = 'replay'`); n != 2 {
		t.Errorf("%d attempts of a replay", n)
	}
	if n := b.count(`SELECT count(*) FROM replay_outcome o JOIN replay_item i USING (replay_id, position) JOIN effect e ON e.id = o.made_id AND e.event_id = i.event_id WHERE o.outcome = 'created'`); n != 2 {
		t.Errorf("%d items name the effect they made", n)
	}
}

// A route that takes an event today and cannot make its request is told, and so is
// that what was discarded is replayed if that was asked for.
func TestAPlanTellsWhatAJudgeCannotRender(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	b.died()
	b.exec(`UPDATE effect SET state = 'skipped', reason = 'discarded', finished_at = now()`)
	r := b.replays(replay.Config{Judge: judgeFunc(func(*replay.RecordedEvent) []replay.Judgement {
		return []replay.Judgement{{Effect: id, Verdict: replay.VerdictDone}, {RouteID: b.routes[once], Verdict: replay.VerdictCannotRender}}
	})})
	p := plan(t, r, everything(), replay.Options{IncludeDiscarded: true, NewRoutes: true})
	items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{}))
	if err != nil || len(items) != 2 || items[0].Action != replay.ActionReplay || items[0].Verdict != "" ||
		items[1].LeftOut != replay.LeftOutCannotRender || items[1].Effect != nil || items[1].Route != once {
		t.Errorf("%+v, %v", items, err)
	}
}

// A plan of a tenant takes that tenant's effects, and makes effects for that tenant's events alone.
func TestAPlanOfATenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 4)
	b.exec(`UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', next_at = NULL`)
	b.exec(`UPDATE source SET tenant = 'home'`)
	b.exec(`UPDATE inbox_event SET tenant = 'acme' WHERE id = ANY ($1)`, ids[:1])
	says := judgeFunc(func(r *replay.RecordedEvent) []replay.Judgement {
		out := []replay.Judgement{{RouteID: b.routes[once], Verdict: replay.VerdictNewRoute}}
		for _, e := range r.Effects {
			out = append(out, replay.Judgement{Effect: e.Effect, RouteID: e.RouteID, Verdict: replay.VerdictSame})
		}
		return out
	})
	r := b.replays(replay.Config{Judge: says})
	for tenant, want := range map[string]int64{"acme": 1, "home": 3, "nobody": 0} {
		scope := replay.Scope{DeadFilter: read.DeadFilter{Tenant: tenant}}
		if p := plan(t, r, scope, replay.Options{}); int64(p.Summary.ToDo) != want {
			t.Errorf("the plan of %s has %d to do, want %d", tenant, p.Summary.ToDo, want)
		}
		if p := plan(t, r, scope, replay.Options{NewRoutes: true}); int64(p.Summary.ToDo) != 2*want {
			t.Errorf("with new routes, the plan of %s has %d to do, want %d", tenant, p.Summary.ToDo, 2*want)
		}
	}
}
