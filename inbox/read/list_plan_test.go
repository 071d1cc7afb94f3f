package read_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/session"
)

// plansOf says with what the names of the plans of a list begin, for every method of a lister that gives pages.
var plansOf = map[string]string{
	"Events": "events", "Effects": "effects", "EffectGroups": "effects grouped", "Dead": "dead letters", "DeadGroups": "dead letters", "Refusals": "refusals", "RefusalGroups": "refusals grouped", "UnknownGroups": "unknown",
	"Undecided": "undecided", "Streams": "streams", "Audit": "audit", "Conflicts": "conflicts", "Outbox": "outbox", "AgentSessions": "sessions", "Items": "items",
}

// Every list has a plan: a new one without any fails here.
func TestEveryListHasAPlan(t *testing.T) {
	t.Parallel()
	plans := listPlans(read.NewLister(nil))
	lister := reflect.TypeFor[*read.Lister]()
	for method := range lister.Methods() {
		if method.Type.NumOut() == 0 || !strings.HasPrefix(method.Type.Out(0).Name(), "Page[") {
			continue
		}
		found := false
		for name := range plans {
			found = found || plansOf[method.Name] != "" && strings.HasPrefix(name, plansOf[method.Name])
		}
		if !found {
			t.Errorf("Lister.%s gives pages and has no plan in listPlans, or is not named in plansOf", method.Name)
		}
	}
}

// messageIDOfMany is the Message-ID of the key "one", under which [storetest.Crowd] makes an attempt of each effect.
var messageIDOfMany = fmt.Sprintf("<%x@example.com>", sha256.Sum256([]byte("one")))[:33] + "@example.com>"

// listHead became a list of one item.
var listHead = inbox.ID{1}

const insertEventOfList = `
INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
VALUES (gen_random_uuid(), 1, 'list', 'x', sha256('x'), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 1, false, false)`

const insertList = `INSERT INTO effect (id, event_id, route_id, item, state, idempotency_key, route_version, finished_at)
SELECT CASE n WHEN 0 THEN $1 ELSE gen_random_uuid() END, (SELECT id FROM inbox_event WHERE event_id = 'list'), 77, n, 'done', 'key', 1, now() FROM generate_series(0, 1) n`

// listPlans are lists with each of their filters, and the indexes that they must be read from. What else they read is
// bounded by a window.
func listPlans(l *read.Lister) map[string]struct {
	list func(context.Context) error
	want string
} {
	since, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	type plan = struct {
		list func(context.Context) error
		want string
	}
	events := func(f read.EventFilter, want string) plan {
		return plan{func(ctx context.Context) error { _, err := l.Events(ctx, f); return err }, want}
	}
	effects := func(f read.EffectFilter, want string) plan {
		return plan{func(ctx context.Context) error { _, err := l.Effects(ctx, f); return err }, want}
	}
	dead := func(f read.DeadFilter, want string) plan {
		return plan{func(ctx context.Context) error {
			if _, err := l.Dead(ctx, f, read.PageRequest{}); err != nil {
				return err
			}
			_, err := l.DeadGroups(ctx, f)
			return err
		}, want}
	}
	refusals := func(f read.RefusalFilter) plan {
		return plan{func(ctx context.Context) error { _, err := l.Refusals(ctx, f); return err }, "refusal_source_idx"}
	}
	plans := map[string]plan{
		"events":                    events(read.EventFilter{}, "Backward using inbox_event_pkey"),
		"events by source":          events(read.EventFilter{Source: "quiet"}, "inbox_event_key"),
		"events by type":            events(read.EventFilter{Type: "none"}, "Backward using inbox_event_pkey"),
		"events by route":           events(read.EventFilter{Route: "r0"}, "effect_event_route_item_key"),
		"events by tenant":          events(read.EventFilter{Tenant: "none"}, "Backward using inbox_event_pkey"),
		"events by sender's id":     events(read.EventFilter{EventID: "many_7"}, "inbox_event_key"),
		"events of a time":          events(read.EventFilter{Since: since, Until: until}, "Backward using inbox_event_pkey"),
		"unusable events":           events(read.EventFilter{State: "unusable"}, "inbox_event_dead_idx"),
		"unrouted events":           events(read.EventFilter{State: "unrouted"}, "Backward using inbox_event_pkey"),
		"effects":                   effects(read.EffectFilter{}, "Backward using effect_pkey"),
		"effects by source":         effects(read.EffectFilter{Source: "quiet"}, "inbox_event_key"),
		"effects by route":          effects(read.EffectFilter{Route: "r0"}, "inbox_event_key"),
		"effects by target":         effects(read.EffectFilter{Target: "t"}, "Backward using effect_pkey"),
		"effects by type":           effects(read.EffectFilter{Type: "none"}, "Backward using effect_pkey"),
		"effects by reason":         effects(read.EffectFilter{Reason: "none"}, "Backward using effect_pkey"),
		"effects by tenant":         effects(read.EffectFilter{Tenant: "none"}, "Backward using effect_pkey"),
		"effects by sender's id":    effects(read.EffectFilter{EventID: "many_7"}, "effect_event_route_item_key"),
		"dead effects of a type":    effects(read.EffectFilter{State: "dead", Type: "none"}, "effect_dead_idx"),
		"held effects of a route":   effects(read.EffectFilter{State: "held", Route: "r0"}, "effect_held_idx"),
		"unknown effects of a type": effects(read.EffectFilter{State: "indeterminate", Type: "none"}, "effect_indeterminate_idx"),
		"dead letters":              dead(read.DeadFilter{}, "inbox_event_dead_idx"),
		"dead letters by source":    dead(read.DeadFilter{Source: "stripe", Route: "r0", Target: "t"}, "effect_dead_idx"),
		"dead letters by reason":    dead(read.DeadFilter{Reason: "none"}, "effect_dead_idx"),
		"dead letters by class":     dead(read.DeadFilter{ErrorClass: read.ErrorAnswer4xx}, "effect_dead_idx"),
		"dead letters by type":      dead(read.DeadFilter{Type: "none"}, "effect_dead_idx"),
		"dead letters by tenant":    dead(read.DeadFilter{Tenant: "none"}, "effect_dead_idx"),
		"dead letters by text":      dead(read.DeadFilter{Text: "none"}, "effect_attempt_pkey"),
		"dead letters by sender":    dead(read.DeadFilter{EventID: "many_7"}, "inbox_event_key"),
		"dead letters of a time":    dead(read.DeadFilter{Since: since, Until: until}, "effect_dead_idx"),
		"effects grouped": {func(ctx context.Context) error {
			_, err := l.EffectGroups(ctx, read.EffectFilter{Source: "stripe", Type: "none", State: "skipped", Since: since, Until: until})
			return err
		}, "Backward using effect_pkey"},
		"refusals":                refusals(read.RefusalFilter{}),
		"refusals of all filters": refusals(read.RefusalFilter{Source: "stripe", Tenant: "none", Cause: "none", Whole: true, Since: since, Until: until}),
		"refusals grouped": {func(ctx context.Context) error {
			_, err := l.RefusalGroups(ctx, read.RefusalFilter{Source: "stripe", Cause: "none", Peer: "none", Since: since})
			return err
		}, "refusal_source_idx"},
		"unknown": {func(ctx context.Context) error {
			_, err := l.UnknownGroups(ctx, read.UnknownFilter{Source: "stripe", Type: "none"})
			return err
		}, "effect_indeterminate_idx"},
		"undecided": {func(ctx context.Context) error {
			_, err := l.Undecided(ctx, read.StreamFilter{}, 0)
			return err
		}, "effect_held_idx"},
		"streams": {func(ctx context.Context) error { _, err := l.Streams(ctx, read.StreamFilter{}); return err }, "Index Scan Backward using stream_pkey"},
		"streams that are blocked": {func(ctx context.Context) error {
			_, err := l.Streams(ctx, read.StreamFilter{Blocked: true, Gap: true})
			return err
		}, "stream_blocked_idx"},
		"audit":             {func(ctx context.Context) error { _, err := l.Audit(ctx, read.AuditFilter{}); return err }, "audit_pkey"},
		"audit of an actor": {func(ctx context.Context) error { _, err := l.Audit(ctx, read.AuditFilter{Actor: "none"}); return err }, "audit_pkey"},
		"outbox":            {func(ctx context.Context) error { _, err := l.Outbox(ctx, read.OutboxFilter{}); return err }, "outbox_pkey"},
		"outbox of source": {func(ctx context.Context) error {
			_, err := l.Outbox(ctx, read.OutboxFilter{Source: "none"})
			return err
		}, "outbox_pkey"},
		"sessions": {func(ctx context.Context) error {
			_, err := l.AgentSessions(ctx, read.AgentSessionFilter{})
			return err
		}, "agent_session_pkey"},
		"sessions of a run": {func(ctx context.Context) error {
			_, err := l.AgentSessions(ctx, read.AgentSessionFilter{Run: "none", Open: true})
			return err
		}, "agent_session_pkey"},
		"items": {func(ctx context.Context) error { _, err := l.Items(ctx, listHead, read.EffectFilter{}); return err }, "effect_event_route_item_key"},
		"items by state": {func(ctx context.Context) error {
			_, err := l.Items(ctx, listHead, read.EffectFilter{State: "dead"})
			return err
		}, "effect_event_route_item_key"},
		"conflicts": {func(ctx context.Context) error {
			_, err := l.Conflicts(ctx, read.ConflictFilter{Source: "stripe"})
			return err
		}, "conflict_pkey"},
		"an event by its prefix":     {func(ctx context.Context) error { _, _ = l.Find(ctx, read.KindEvent, "0199c1a2"); return nil }, "inbox_event_pkey"},
		"effects by key":             effects(read.EffectFilter{Key: messageIDOfMany}, "effect_attempt_key_idx"),
		"effects by key, of a state": effects(read.EffectFilter{Key: messageIDOfMany, State: "done", Source: "stripe"}, "effect_attempt_key_idx"),
		"an effect by its key":       {func(ctx context.Context) error { _, _ = l.Find(ctx, read.KindEffect, messageIDOfMany); return nil }, "effect_attempt_key_idx"},
		"an effect by its event":     {func(ctx context.Context) error { _, _ = l.Find(ctx, read.KindEffect, "many_7"); return nil }, "effect_event_route_item_key"},
	}
	for _, state := range []string{"pending", "claimed", "retry", "held", "done", "dead", "indeterminate", "superseded", "skipped", "duplicate"} {
		index := map[string]string{
			"pending": "effect_due_idx", "claimed": "effect_due_idx", "retry": "effect_due_idx", "held": "effect_held_idx", "dead": "effect_dead_idx",
			"indeterminate": "effect_indeterminate_idx", "duplicate": "effect_duplicate_of_idx",
		}[state]
		plans["effects "+state] = effects(read.EffectFilter{State: state}, index)
		plans["events "+state] = events(read.EventFilter{State: state}, index)
	}
	return plans
}

// Every list finds its rows through the index meant for it, whatever it is narrowed by: as it is planned for its
// arguments and as it is planned for any, on tables that the planner knows and on tables that it has never seen.
func TestPlansOfLists(t *testing.T) {
	t.Parallel()
	for name, analysed := range map[string]bool{"analysed": true, "never analysed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			admin := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
			inboxtest.Source(t, admin, "stripe")
			if analysed {
				storetest.Crowd(t, admin)
			}
			storetest.Exec(t, admin, insertEventOfList)
			storetest.Exec(t, admin, insertList, listHead)
			p := newPlanner(t, url, schema)
			for name, c := range listPlans(inboxtest.Lister(p.pool)) {
				if err := c.list(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				var plans [2]strings.Builder
				for _, q := range p.asked.take() {
					for i, plan := range p.plans(t, q) {
						fmt.Fprintln(&plans[i], plan)
						for _, bad := range []string{"Seq Scan on inbox_event", "Seq Scan on effect", "Seq Scan on stream", "Seq Scan on refusal", "Seq Scan on audit"} {
							if strings.Contains(plan, bad) {
								t.Errorf("%s: the plan reads a whole table:\n%s\n%s", name, q.SQL, plan)
							}
						}
					}
					if strings.Contains(q.SQL, "= '' OR") {
						t.Errorf("%s has a predicate that is not set:\n%s", name, q.SQL)
					}
				}
				for i := range plans {
					if analysed && !strings.Contains(plans[i].String(), c.want) {
						t.Errorf("%s: the plans have no %q:\n%s", name, c.want, &plans[i])
					}
				}
			}
		})
	}
}
