package prune_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
)

// old is past every horizon.
const old = 40 * storetest.Day

// scene is a past in which one rule of a guard, or a guard without a rule, is all that keeps some row.
type scene struct {
	// holds reports whether the guard still finds the row that it checks for.
	holds func(t *testing.T) bool

	// erase are the keys of the events that the guard reads.
	erase []string

	// erased: erasing removes what the guard reads, as the list says; discarded: a discard does.
	erased, discarded bool

	// planted removes what the guard reads, for guards that prune has no rule for.
	planted string
}

// stage makes scenes.
type stage struct {
	*storetest.Past
	effects *inbox.Effects
	scenes  map[string]scene
}

func (s *stage) effect(t *testing.T, event inbox.ID) (id inbox.ID) {
	t.Helper()
	if err := s.Pool.QueryRow(t.Context(), `SELECT id FROM effect WHERE event_id = $1 AND item = 0 ORDER BY route_id LIMIT 1`, event).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// there is a scene of rows that must stay.
func (s *stage) there(sql string, args ...any) func(t *testing.T) bool {
	return func(t *testing.T) bool {
		t.Helper()
		return s.Count(t, `SELECT count(*) FROM `+sql, args...) > 0
	}
}

// known: a redelivery is a duplicate.
func (s *stage) known(key string, id inbox.ID) func(t *testing.T) bool {
	return func(t *testing.T) bool {
		t.Helper()
		got := s.Accept(t, inboxtest.Admission(s.Source, key), 0).Items[0]
		return got.Outcome == inbox.Duplicate && got.ID == id
	}
}

// calledAgain: what replays, rearms and resends ask about an effect.
func (s *stage) calledAgain(effect inbox.ID) func(t *testing.T) bool {
	return func(t *testing.T) bool {
		t.Helper()
		return s.Count(t, `SELECT count(*) FROM effect x WHERE x.id = $1 AND `+row.CalledAgain, effect) == 1
	}
}

// call records an event that follows another one.
func (s *stage) call(t *testing.T, key string, parent inbox.ID, state inbox.EffectState) inbox.ID {
	t.Helper()
	child := s.Deliver(t, key, old, state)
	s.Exec(t, `UPDATE inbox_event SET parent = $2 WHERE id = $1`, child, parent)
	s.Exec(t, `INSERT INTO operation_follow (child, parent, kind, intent_hash, parent_status) VALUES ($1, $2, 'resumes', sha256('i'), 'failed')`, child, parent)
	return child
}

// another adds an effect to an event.
func (s *stage) another(t *testing.T, event inbox.ID, routeID int32, item int, state inbox.EffectState) {
	t.Helper()
	s.Exec(t, `INSERT INTO effect (id, event_id, route_id, item, state, idempotency_key, route_version, reason, finished_at)
		SELECT $5, $1, $2, $3, $4, 'key', 1, CASE WHEN $4 = 'dead' THEN 'other' END, CASE WHEN $4 = 'done' THEN now() - interval '40 days' END`,
		event, routeID, item, string(state), inbox.NewID(time.Now().Add(-old)))
}

func (s *stage) plan(t *testing.T, event inbox.ID, effect any, action string) {
	t.Helper()
	id := inbox.NewID(time.Now())
	s.Exec(t, `INSERT INTO replay (id, state, scope, actor) VALUES ($1, 'running', '{}', 'a')`, id)
	s.Exec(t, `INSERT INTO replay_item (replay_id, position, effect_id, event_id, route_id, action) VALUES ($1, 1, $2, $3, $4, $5)`,
		id, effect, event, s.Source.Routes[0].ID, action)
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Past: storetest.NewPast(t), scenes: map[string]scene{}}
	var err error
	if s.effects, err = inbox.NewEffects(inbox.EffectsConfig{Pool: s.Pool, Enqueuer: storetest.Queue(), Node: "test"}); err != nil {
		t.Fatal(err)
	}
	route := s.Source.Routes[0].ID
	const other = 99 // a route that has left the configuration
	s.Exec(t, `INSERT INTO route (id, source_id, name, target, kind, digest, updated_at) OVERRIDING SYSTEM VALUE
		VALUES ($1, $2, 'former', 'sink', 'forward', '\x01', now() - interval '1 day')`, other, s.Source.ID)
	done, dead := inbox.EffectDone, inbox.EffectDead

	id := s.Deliver(t, "event of a dead effect", old, dead)
	s.scenes["event/0"] = scene{holds: s.known("event of a dead effect", id), erase: []string{"event of a dead effect"}}
	id = s.Deliver(t, "event with a conflict", old, done)
	s.Exec(t, `INSERT INTO conflict (id, event_id, source_id, payload_sha256, sha256, paths, type, sequence_key, sequence_number, id_unsigned, first_seen_at, last_seen_at, headers, body)
		VALUES (gen_random_uuid(), $1, $2, sha256('p'), sha256('p'), '{}', 'x', '', '', false, now(), now(), '', '')`, id, s.Source.ID)
	s.scenes["event/1"] = scene{holds: s.known("event with a conflict", id)}

	// The later call has no effect left: only its row says that it follows.
	x := s.Deliver(t, "called again", old, dead)
	id = s.call(t, "later call", x, done)
	s.Exec(t, `DELETE FROM effect WHERE event_id = $1`, id)
	s.scenes["later call/0"] = scene{holds: s.calledAgain(s.effect(t, x)), erase: []string{"called again", "later call"}}
	// One effect of it is done, and another one of it is not settled.
	x = s.Deliver(t, "called again in part", old, dead)
	s.call(t, "later call in part", x, done)
	s.scenes["later call/1"] = scene{holds: s.calledAgain(s.effect(t, x)), erase: []string{"called again in part", "later call in part"}}
	// It was a duplicate that was called again.
	x = s.Deliver(t, "owner", old, dead)
	twin := s.Deliver(t, "twin", old, inbox.EffectDuplicate)
	s.Exec(t, `UPDATE effect SET duplicate_of = $2 WHERE event_id = $1`, twin, s.effect(t, x))
	s.call(t, "later call of the twin", twin, done)
	s.scenes["duplicate/1"] = scene{holds: s.calledAgain(s.effect(t, x)), erase: []string{"owner", "twin"}}

	// A person has moved the effect of the later call to another route, where it is under way.
	x = s.Deliver(t, "called again, and moved", old, dead)
	id = s.call(t, "later call that moved", x, inbox.EffectPending)
	s.Exec(t, `UPDATE effect SET route_id = $2 WHERE event_id = $1`, id, other)
	s.scenes["later call, moved"] = scene{holds: s.calledAgain(s.effect(t, x))}

	parent := s.Deliver(t, "earlier call", old, done)
	child := s.call(t, "resumed call", parent, dead)
	s.scenes["earlier call/0"] = scene{erase: []string{"earlier call", "resumed call"}, holds: func(t *testing.T) bool {
		t.Helper()
		got, err := s.effects.ParentEffect(t.Context(), nil, &inbox.Claim{Event: inbox.ClaimedEvent{ID: child}, RouteID: route, Effect: s.effect(t, child)})
		if err != nil {
			t.Fatal(err)
		}
		return got.State == inbox.ParentDone
	}}

	owner := s.effect(t, s.Deliver(t, "owner with a young duplicate", old, done))
	id = s.Deliver(t, "young duplicate", 2*storetest.Day, inbox.EffectDuplicate)
	s.Exec(t, `UPDATE effect SET duplicate_of = $2 WHERE event_id = $1`, id, owner)
	s.scenes["duplicate/0"] = scene{holds: s.there(`effect d JOIN effect o ON o.id = d.duplicate_of WHERE d.event_id = $1`, id), erase: []string{"young duplicate"}}

	own := func(key string, event inbox.ID, received, expires string) func(t *testing.T) bool {
		owner := s.effect(t, event)
		s.Exec(t, `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
			VALUES ($1, sha256($2), $3, now() - $4::interval, now() - $5::interval)`, route, []byte(key), owner, received, expires)
		return s.there(`effect_key k JOIN effect o ON o.id = k.effect_id WHERE k.key_hash = sha256($1) AND o.id = $2`, []byte(key), owner)
	}
	s.scenes["key owner/0"] = scene{holds: own("dead", s.Deliver(t, "dead owner", old, dead), "60 days", "50 days"), erase: []string{"dead owner"}, discarded: true}
	s.scenes["key owner/1"] = scene{holds: own("alive", s.Deliver(t, "settled owner", old, done), "40 days", "-1 day"), erase: []string{"settled owner"}}

	// The list was cut off; its first item is done.
	list := s.Deliver(t, "list", old, dead)
	s.another(t, list, route, 1, done)
	s.scenes["list/0"] = scene{erase: []string{"list"}, holds: func(t *testing.T) bool {
		t.Helper()
		last, err := s.effects.LastItem(t.Context(), &inbox.Claim{Event: inbox.ClaimedEvent{ID: list}, RouteID: route})
		if err != nil {
			t.Fatal(err)
		}
		return last == 1
	}}
	mixed := s.Deliver(t, "one done, one dead", old, done)
	s.another(t, mixed, other, 0, dead)
	s.scenes["stored result/0"] = scene{holds: s.there(`effect WHERE event_id = $1 AND state = 'done'`, mixed), erase: []string{"one done, one dead"}}

	replayed := s.Deliver(t, "in a replay", old, done)
	s.plan(t, replayed, s.effect(t, replayed), "replay")
	s.scenes["open replay/0"] = scene{holds: s.there(`effect WHERE event_id = $1`, replayed), erase: []string{"in a replay"}}
	bare := s.Deliver(t, "without effects, in a replay", old, done)
	s.Exec(t, `DELETE FROM effect WHERE event_id = $1`, bare)
	s.plan(t, bare, nil, "create")
	s.scenes["open replay/1"] = scene{holds: s.there(`inbox_event WHERE id = $1`, bare), erase: []string{"without effects, in a replay"}}
	made := s.Deliver(t, "made already", old, done)
	s.plan(t, made, nil, "create")
	s.scenes["effect to be made/0"] = scene{holds: s.there(`effect WHERE event_id = $1 AND route_id = $2`, made, route), erase: []string{"made already"}}

	ahead := s.Deliver(t, "ahead", old, done)
	s.Exec(t, `UPDATE effect SET sequence_key_hash = sha256('k'), sequence_number = 8 WHERE event_id = $1`, ahead)
	s.Exec(t, `INSERT INTO stream (route_id, key_hash, applied, gap_since) VALUES ($1, sha256('k'), 6, now())`, route)
	s.scenes["place in a stream/0"] = scene{holds: s.there(`effect WHERE event_id = $1`, ahead), erase: []string{"ahead"}}
	ordered := s.Deliver(t, "ordered", old, dead)
	s.Exec(t, `UPDATE effect SET sequence_key_hash = sha256('o'), sequence_number = 5 WHERE event_id = $1`, ordered)
	s.Exec(t, `UPDATE route_version SET definition = '{"order": {"mode": "contiguous"}}' WHERE route_id = $1`, route)
	s.Exec(t, `INSERT INTO stream (route_id, key_hash, updated_at, applied) VALUES ($1, sha256('o'), now() - interval '300 days', NULL),
		($1, sha256('begun'), now() - interval '300 days', 5)`, route)
	s.scenes["stream/0"] = scene{holds: s.there(`stream WHERE key_hash = sha256('o')`), erase: []string{"ordered"}}
	s.scenes["stream/1"] = scene{holds: s.there(`stream WHERE key_hash = sha256('begun')`)}

	s.Deliver(t, "may have happened", old, dead)
	s.scenes["attempt"] = scene{
		holds: s.there(`effect_attempt t JOIN effect e ON e.id = t.effect_id JOIN inbox_event v ON v.id = e.event_id WHERE v.event_id = 'may have happened' AND t.outcome = 'done'`),
		erase: []string{"may have happened"}, planted: `DELETE FROM effect_attempt`,
	}
	s.scenes["who follows whom"] = scene{
		holds: s.there(`operation_follow WHERE parent = $1`, parent), erase: []string{"earlier call", "resumed call"}, planted: `DELETE FROM operation_follow`,
	}
	called := s.Deliver(t, "called", 20*storetest.Day, done)
	s.Exec(t, `INSERT INTO operation_result (event_id, status, document, rendered_at) VALUES ($1, 'done', '', now())`, called)
	s.Exec(t, `INSERT INTO recent_call (source_id, call_hash, event_id, expires_at) VALUES ($1, sha256('c'), 'called', now() + interval '1 hour')`, s.Source.ID)
	s.scenes["stored result"] = scene{holds: s.there(`operation_result WHERE event_id = $1`, called), erase: []string{"called"}, erased: true, planted: `DELETE FROM operation_result`}
	s.scenes["recent call"] = scene{
		holds: s.there(`recent_call r JOIN inbox_event v ON v.source_id = r.source_id AND v.event_id = r.event_id WHERE r.call_hash = sha256('c')`),
		erase: []string{"called"}, planted: `DELETE FROM recent_call`,
	}
	return s
}

// after fails the test for each guard that no longer finds what it checks for.
func (s *stage) after(t *testing.T, what string, except func(scene) bool) {
	t.Helper()
	for name, c := range s.scenes {
		if !except(c) && !c.holds(t) {
			t.Errorf("%s: lost after %s", name, what)
		}
	}
}

// TestGuardsOutliveDecisions has operators discard every dead letter and move what waits for a route that is gone. A guard then still
// finds what it checks for, also after the next prune, because what is settled by a decision is settled now.
func TestGuardsOutliveDecisions(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	moved, err := decide.New(s.effects).ClearRoute(t.Context(), decide.ClearRoute{Source: s.Source.Name, Route: "former", To: "all", Actor: "a", Reason: "a test"})
	if err != nil || moved.Cleared == 0 || moved.Left > 0 {
		t.Fatalf("%+v, %v", moved, err)
	}
	s.after(t, "a move", func(scene) bool { return false })
	discarded, err := decide.New(s.effects).Discard(t.Context(), decide.Discard{All: true, Actor: "a", Reason: "a test"})
	if err != nil || discarded.Discarded == 0 || discarded.Changed > 0 {
		t.Fatalf("%+v, %v", discarded, err)
	}
	returned := func(c scene) bool { return c.discarded }
	s.after(t, "a discard", returned)
	s.Prune(t)
	s.after(t, "a prune after a discard", returned)
	for name, c := range s.scenes {
		if c.discarded && c.holds(t) {
			t.Errorf("%s: a discard leaves it", name)
		}
	}
}

// TestEveryGuardOutlivesWhatItProtects walks the list of guards: prune and erasing remove none of them, what prune
// counts is what it takes, and a prune without any one of the rules is noticed. A rule that is added to the list needs a scene.
func TestEveryGuardOutlivesWhatItProtects(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var rules []string
	for _, g := range inbox.Guards() {
		if _, planted := s.scenes[g.Name]; !planted && len(g.Keeps) == 0 {
			t.Errorf("guard %q has neither a rule nor a scene", g.Name)
		}
		for i := range g.Keeps {
			rules = append(rules, fmt.Sprintf("%s/%d", g.Name, i))
		}
	}
	for _, rule := range rules {
		if s.scenes[rule].holds == nil {
			t.Fatalf("rule %q has no scene", rule)
		}
	}
	counts, err := s.Pruner(t).DryRun(t.Context(), prune.Run{})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, counts, s.Prune(t))
	s.after(t, "prune", func(scene) bool { return false })
	for _, c := range s.scenes {
		for _, key := range c.erase {
			if _, err := s.Erase(t, key); err != nil {
				t.Fatalf("erasing %q: %v", key, err)
			}
		}
	}
	gone := func(c scene) bool { return c.erased }
	s.after(t, "erasing", gone)
	s.Prune(t)
	s.after(t, "a prune after erasing", gone)
	// The museum: one rule is missing at a time.
	for _, rule := range rules {
		pruner := prune.Without(s.Pruner(t), rule)
		inboxtest.Until(t, "a pass that is complete", func() bool {
			report, err := pruner.Run(t.Context(), prune.Run{Anew: true})
			if err != nil {
				t.Fatalf("without %s: %v", rule, err)
			}
			return report.Complete
		})
		if s.scenes[rule].holds(t) {
			t.Errorf("nobody notices a prune without rule %s", rule)
		}
	}
	for name, c := range s.scenes {
		if c.planted == "" {
			continue
		}
		if s.Exec(t, c.planted); c.holds(t) {
			t.Errorf("nobody notices that the rows of %s are gone", name)
		}
	}
}
