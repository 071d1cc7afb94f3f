package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

// changes reports whether an operation changes something: it is not a GET, but for the one question that holds an address.
func changes(d control.Description) bool {
	return d.Method != http.MethodGet && d.ID != control.CheckSuppression.ID
}

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// Every operation that changes something is refused to whoever may only read, and the greatest ones to operators too, before
// anything of the request is looked at.
func TestActsNeedTheirScope(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if !changes(d) {
			continue
		}
		path := placeholder.ReplaceAllString(d.Path, "1")
		tokens := []string{"read-metadata", "read-payload", ""}
		switch d.Scope {
		case control.Operate:
		case control.Admin:
			tokens = append(tokens, "operate")
		case control.ReadMetadata, control.ReadPayload:
			t.Errorf("%s changes something and needs only %s", d.ID, d.Scope)
		}
		for _, token := range tokens {
			expect(t, d.ID+" with "+token, h.do(t, token, path, object{"reason": "because"}), control.CodeForbidden)
		}
	}
}

func (h *house) dump(t *testing.T) (out string) {
	t.Helper()
	err := h.pool.QueryRow(t.Context(), `
SELECT (SELECT coalesce(string_agg(e::text, E'\n' ORDER BY e.id), '') FROM effect e) || (SELECT coalesce(string_agg(v::text, E'\n' ORDER BY v.id), '') FROM inbox_event v)
    || (SELECT coalesce(string_agg(s::text, E'\n' ORDER BY s.id), '') FROM stream s) || (SELECT count(*) FROM audit)
    || (SELECT coalesce(string_agg(r.state || r.id, E'\n' ORDER BY r.id), '') FROM replay r) || (SELECT count(*) FROM agent_session WHERE revoked_at IS NOT NULL)
    || (SELECT count(*) FROM suppression) || (SELECT count(*) FROM outbox) || (SELECT count(*) FROM conflict WHERE admitted_as IS NOT NULL)`).Scan(&out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What is another tenant's is not there for an operator of one, whatever it is and however it is named, and stays as it was.
func TestActsOnWhatIsAnothersTenants(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	event, dead := h.effect(t, "blue", "bill", "dead", "attempts_exhausted")
	_, unknown := h.effect(t, "blue", "bill", "indeterminate", "timeout")
	_, held := h.effect(t, "blue", "bill", "held", "sequence_key_missing")
	_, blocker := h.effect(t, "blue", "ship", "dead", "attempts_exhausted")
	var stream int64
	if err := h.pool.QueryRow(t.Context(), `INSERT INTO stream (route_id, key_hash, key_label, applied, blocked_by) VALUES ($1, sha256('k'), 'k', 1, $2) RETURNING id`,
		h.sources["blue"].Routes["ship"].ID, blocker).Scan(&stream); err != nil {
		t.Fatal(err)
	}
	h.exec(t, `UPDATE effect SET sequence_key_hash = sha256('k'), sequence_number = 2 WHERE id = $1`, blocker)
	conflict, session := inbox.NewID(time.Now()), inbox.NewID(time.Now())
	h.exec(t, `INSERT INTO conflict (id, event_id, source_id, sha256, payload_sha256, type, paths, deliveries, first_seen_at, last_seen_at, headers, body, id_unsigned, sequence_key, sequence_number)
		VALUES ($1, $2, $3, sha256('y'), sha256('y'), 'invoice.paid', '{}', 1, now(), now(), '{}', 'y', false, '', '')`, conflict, event, h.sources["blue"].ID)
	h.exec(t, `INSERT INTO agent_session (id, digest, source_id, credential, run, created_at, expires_at) VALUES ($1, sha256('s'), $2, 'engine', '42', now(), now() + interval '1 hour')`,
		session, h.sources["blue"].ID)
	var row int64
	if err := h.pool.QueryRow(t.Context(), `INSERT INTO outbox (source, event_id, type, payload, refused_at, refusal) VALUES ('blue', 'e', 't', '{}', now(), 'type') RETURNING id`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	var plan struct{ ID, Digest string }
	h.do(t, "operate@blue", "/replays", object{"ids": []inbox.ID{dead}}).into(t, &plan)
	var found struct{ Seen string }
	h.do(t, "operate@blue", "/dead-letters/discard", object{"filter": object{"source": "blue"}, "dry_run": true}).into(t, &found)
	var unknowns struct{ Seen string }
	h.do(t, "operate@blue", "/indeterminates/resolve", object{"filter": object{"source": "blue"}, "dry_run": true}).into(t, &unknowns)

	why := object{"reason": "because"}
	with := func(more object) object {
		out := object{"reason": "because"}
		maps.Copy(out, more)
		return out
	}
	type attempt struct {
		operation, path string
		body            object
		code            control.Code
	}
	attempts := []attempt{
		{"discard_dead_letters", "/dead-letters/discard", with(object{"ids": []inbox.ID{dead}}), control.CodeNotFound},
		{"discard_dead_letters", "/dead-letters/discard", with(object{"ids": []inbox.ID{event}}), control.CodeNotFound},
		{"discard_dead_letters", "/dead-letters/discard", with(object{"seen": found.Seen}), control.CodeNotFound},
		{"discard_dead_letters", "/dead-letters/discard", with(object{"filter": object{"tenant": "blue"}, "dry_run": true}), control.CodeForbidden},
		{"replay_dead_letters", "/dead-letters/replay", with(object{"ids": []inbox.ID{dead}}), control.CodeNotFound},
		{"resolve_effect", "/effects/" + unknown.String() + "/resolve", with(object{"as": "done"}), control.CodeNotFound},
		{"cancel_list", "/effects/" + unknown.String() + "/cancel", why, control.CodeNotFound},
		{"resolve_effects", "/indeterminates/resolve", with(object{"seen": unknowns.Seen, "as": "done"}), control.CodeNotFound},
		{"resolve_effects", "/indeterminates/resolve", with(object{"filter": object{"tenant": "blue"}, "dry_run": true}), control.CodeForbidden},
		{"apply_effect", "/effects/" + held.String() + "/apply", why, control.CodeNotFound},
		{"skip_effect", "/effects/" + held.String() + "/skip", why, control.CodeNotFound},
		{"skip_stream", fmt.Sprintf("/streams/%d/skip", stream), why, control.CodeNotFound},
		{"skip_stream", "/streams/blue%2Fship%2Fk/skip", why, control.CodeNotFound},
		{"unblock_stream", fmt.Sprintf("/streams/%d/unblock", stream), why, control.CodeNotFound},
		{"apply_stream", fmt.Sprintf("/streams/%d/apply", stream), why, control.CodeNotFound},
		{"admit_conflict", "/conflicts/" + conflict.String() + "/admit", why, control.CodeNotFound},
		{"dismiss_conflicts", "/conflicts/dismiss", with(object{"ids": []inbox.ID{conflict}}), control.CodeNotFound},
		{"acknowledge_refusals", "/refusals/acknowledge", with(object{"causes": []object{{"source": "blue", "cause": "mismatch"}}}), control.CodeNotFound},
		{"reverify_refusals", "/refusals/reverify", with(object{"source": "blue"}), control.CodeNotFound},
		{"erase_refusals", "/refusals/erase", with(object{"source": "blue", "containing": "nobody"}), control.CodeNotFound},
		{"run_replay", "/replays/" + plan.ID + "/run", with(object{"digest": plan.Digest}), control.CodeNotFound},
		{"cancel_replay", "/replays/" + plan.ID + "/cancel", why, control.CodeNotFound},
		{"plan_replay", "/replays", with(object{"filter": object{"tenant": "blue"}}), control.CodeForbidden},
		{"erase_events", "/events/erase", with(object{"seen": found.Seen}), control.CodeNotFound},
		{"erase_events", "/events/erase", with(object{"label": "customer=x", "tenant": "blue", "dry_run": true}), control.CodeForbidden},
		{"erase_event", "/events/" + event.String() + "/erase", why, control.CodeNotFound},
		{"erase_event", "/events/blue%2Fevt_" + event.String() + "/erase", why, control.CodeNotFound},
		{"revoke_session", "/sessions/" + session.String() + "/revoke", why, control.CodeNotFound},
		{"revoke_sessions", "/sessions/revoke", with(object{"source": "blue"}), control.CodeNotFound},
		{"add_suppression", "/suppressions", with(object{"address": "ann@example.com"}), control.CodeForbidden},
		{"import_suppressions", "/suppressions/import", with(object{"addresses": []string{"ann@example.com"}}), control.CodeForbidden},
		{"remove_suppression", "/suppressions/remove", with(object{"address": "ann@example.com"}), control.CodeForbidden},
	}
	attempts = append(attempts,
		attempt{"discard_outbox", fmt.Sprintf("/outbox/%d/discard", row), why, control.CodeNotFound},
		attempt{"discard_route", "/routes/blue/bill/discard", object{"dry_run": true}, control.CodeNotFound},
		attempt{"move_route", "/routes/blue/bill/move", object{"dry_run": true, "to": "ship"}, control.CodeNotFound},
		attempt{"create_source", "/sources", with(object{"name": "new", "definition": object{"provider": "stripe"}}), control.CodeForbidden},
		attempt{"update_source", "/sources/blue/update", with(object{"change": object{}}), control.CodeForbidden},
		attempt{"disable_source", "/sources/blue/disable", why, control.CodeForbidden},
		attempt{"enable_source", "/sources/blue/enable", why, control.CodeForbidden},
		attempt{"pause_source", "/sources/blue/pause", why, control.CodeNotFound},
		attempt{"resume_source", "/sources/blue/resume", why, control.CodeNotFound},
		attempt{"pause_route", "/routes/blue/bill/pause", why, control.CodeNotFound},
		attempt{"resume_route", "/routes/blue/bill/resume", why, control.CodeNotFound},
		attempt{"pause_target", "/targets/noop/pause", why, control.CodeForbidden},
		attempt{"resume_target", "/targets/noop/resume", why, control.CodeForbidden},
		attempt{"test_target", "/targets/noop/test", why, control.CodeForbidden},
		attempt{"test_notifications", "/notifications/test", why, control.CodeForbidden},
		attempt{"run_prune", "/prune", why, control.CodeForbidden},
		attempt{"reload_configuration", "/reload", object{}, control.CodeForbidden},
		attempt{"reconcile_source", "/reconcile", with(object{"source": "blue"}), control.CodeNotFound},
		attempt{"test_source", "/sources/blue/test", why, control.CodeNotFound},
	)
	before := h.dump(t)
	tried := map[string]bool{}
	for _, a := range attempts {
		tried[a.operation] = true
		expect(t, a.operation, h.do(t, "admin@acme", a.path, a.body), a.code)
	}
	if after := h.dump(t); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
	// Tokens and logins have a test of their own.
	for _, operation := range control.Operations() {
		if d := operation.Describe(); changes(d) && !tried[d.ID] && !strings.HasPrefix(d.Path, "/tokens") && !strings.HasPrefix(d.Path, "/log") {
			t.Errorf("%s is not tried on what is another tenant's", d.ID)
		}
	}
	// A plan by ids has nothing of another tenant in it.
	var other struct {
		ID      string
		Summary struct{ Items, Unknown int }
	}
	h.do(t, "operate@acme", "/replays", object{"ids": []inbox.ID{dead, event}}).into(t, &other)
	if other.Summary.Items != 0 || other.Summary.Unknown != 2 {
		t.Errorf("a plan of another tenant's ids is %+v, want nothing but two unknown ids", other.Summary)
	}
	// Their own tenant's people may.
	h.do(t, "operate@blue", "/effects/"+unknown.String()+"/resolve", with(object{"as": "done"})).into(t, &struct{}{})
	if got := h.state(t, unknown); got != "done" {
		t.Errorf("the effect is %s, want done", got)
	}
	h.do(t, "operate@blue", fmt.Sprintf("/streams/%d/unblock", stream), why).into(t, &struct{}{})
}

// A plan is run by the digest that it showed, by whoever may.
func TestReplaysArePlannedRunAndCancelled(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, effect := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	var plan struct {
		ID, State, Digest, Actor string
		Summary                  struct{ Items int }
	}
	h.do(t, "operate@acme", "/replays", object{"filter": object{"route": "bill"}}).into(t, &plan)
	if plan.State != "planned" || plan.Summary.Items != 1 || plan.Actor != "ann of operate" || h.state(t, effect) != "dead" {
		t.Fatalf("the plan is %+v", plan)
	}
	run := "/replays/" + plan.ID + "/run"
	expect(t, "no digest", h.do(t, "operate", run, object{"reason": "r"}), control.CodeInvalid)
	expect(t, "another digest", h.do(t, "operate", run, object{"reason": "r", "digest": "0000000000"}), control.CodeDigest)
	expect(t, "no reason", h.do(t, "operate", run, object{"digest": plan.Digest}), control.CodeInvalid)
	h.do(t, "operate@acme", run, object{"reason": "r", "digest": plan.Digest[:8]}).into(t, &plan)
	if plan.State != "running" {
		t.Errorf("the replay is %s, want running", plan.State)
	}
	h.do(t, "operate@acme", "/replays/"+plan.ID+"/cancel", object{"reason": "r"}).into(t, &plan)
	if plan.State != "cancelled" {
		t.Errorf("the replay is %s, want cancelled", plan.State)
	}
	expect(t, "cancelled twice", h.do(t, "operate", "/replays/"+plan.ID+"/cancel", object{"reason": "r"}), control.CodeConflict)
	for _, action := range []string{"replay.plan", "replay.run", "replay.cancel"} {
		if got := h.actors(t, action); len(got) != 1 || got[0] != "ann of operate" {
			t.Errorf("the audit names %q for %s", got, action)
		}
	}
}

// A test delivery is signed with the source's own secret and handed to this process's receiver; a dry run is not.
func TestATestDelivery(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var out control.TestDelivery
	h.do(t, "operate", "/sources/acme/test", object{"dry_run": true}).into(t, &out)
	if !out.Verified || h.deliveries.n != 0 || len(h.actors(t, "source.test")) != 0 {
		t.Errorf("the dry run gave %+v and %d deliveries", out, h.deliveries.n)
	}
	h.do(t, "operate@acme", "/sources/acme/test", object{}).into(t, &out)
	if out.Outcome != "recorded" || out.Status != http.StatusOK || h.deliveries.n != 1 || h.deliveries.last.URL.Path != "/in/acme" {
		t.Errorf("the test gave %+v and %d deliveries", out, h.deliveries.n)
	}
	if got := h.actors(t, "source.test"); len(got) != 1 || got[0] != "ann of operate" {
		t.Errorf("the audit names %q", got)
	}
	expect(t, "a source that is not configured", h.do(t, "operate", "/sources/gone/test", object{}), control.CodeNotFound)
}

// What waits for a route that is gone moves or is discarded; what another dry run found is not of it.
func TestARouteIsCleared(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, waiting := h.effect(t, "acme", "bill", "pending", "")
	_, other := h.effect(t, "acme", "ship", "dead", "attempts_exhausted")
	h.exec(t, `UPDATE route SET updated_at = now() - interval '2 hours' WHERE name = 'bill'`)
	var dry, seen struct {
		Matched, Cleared int
		Seen             string
	}
	h.do(t, "operate@acme", "/routes/acme/bill/discard", object{"dry_run": true}).into(t, &dry)
	if dry.Matched != 1 || h.state(t, waiting) != "pending" {
		t.Fatalf("the dry run found %+v", dry)
	}
	h.do(t, "operate", "/dead-letters/discard", object{"ids": []inbox.ID{other}, "dry_run": true}).into(t, &seen)
	expect(t, "what is of another route", h.do(t, "operate", "/routes/acme/bill/discard", object{"seen": seen.Seen, "reason": "r"}), control.CodeInvalid)
	expect(t, "an unknown route to move to", h.do(t, "operate", "/routes/acme/bill/move", object{"seen": dry.Seen, "reason": "r", "to": "nowhere"}), control.CodeInvalid)
	h.do(t, "operate@acme", "/routes/acme/bill/discard", object{"seen": dry.Seen, "reason": "r"}).into(t, &dry)
	if got := h.state(t, waiting); got != "skipped" || dry.Cleared != 1 {
		t.Errorf("the effect is %s, and %+v", got, dry)
	}
}
