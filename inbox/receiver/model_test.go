package receiver_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// model is an inbox on a real database with one source of operations and two targets that cannot deduplicate. Callers,
// workers, a pruner and an operator act on it in a random order. It knows what was charged at the targets, for which call.
//
// A line is an intent: a call, and those that resume it. The invariants are that each target is charged at most once for a
// line, that nothing is charged for a line once another one has taken its place, that a call is done only if its
// payload was charged at both targets, that a payload is not taken twice by callers who say nothing of the first call, and
// that a caller who follows next finishes.
type model struct {
	fail func(format string, args ...any) // ends the walk
	draw func(n int) int                  // of 0 to n-1

	ctx     context.Context
	pool    *pgxpool.Pool
	handler http.Handler
	store   *inbox.Effects
	replays *replay.Store
	pruner  *prune.Pruner
	routes  map[int32]string
	planted fault
	intent  func(payload []byte) []byte
	sent    []byte

	calls     []*modelCall
	abandoned []*inbox.Claim // of workers that were killed
	keys      int
}

type modelCall struct {
	key, payload string
	event        inbox.ID
	line         *modelLine
}

type modelLine struct {
	charged  map[string]string // by target: the payload
	replaced bool
}

// newModel makes the inbox, once for many walks.
func newModel(t *testing.T) *model {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	m := &model{ctx: t.Context(), pool: inboxtest.Open(t, url, schema, session.PoolAdmin, 6), routes: map[int32]string{}}
	if err := inbox.EnsurePartitions(m.ctx, m.pool, []string{"default"}, time.Now(), 1); err != nil {
		t.Fatal(err)
	}
	source := registry.Source{Name: "agents", Provider: "operation", Class: "default", Separate: true}
	for _, name := range []string{"pay", "book"} {
		source.Routes = append(source.Routes, registry.Route{Name: name, Target: name, Kind: "forward", Digest: []byte{1}})
	}
	registered, err := registry.Register(m.ctx, m.pool, []registry.Source{source})
	if err != nil {
		t.Fatal(err)
	}
	provider := catalogtest.Load(t)["operation"]
	agents := &inbox.Source{ID: registered["agents"].ID, Name: "agents", Class: "default", Strict: true, Canonical: provider.Canonical, Differences: provider.Differences, Tombstone: 30 * 24 * time.Hour}
	m.intent = agents.Comparison("charge").Sum
	effects := map[int32]inbox.EffectRoute{}
	for name, route := range registered["agents"].Routes {
		agents.Routes = append(agents.Routes, inbox.Route{ID: route.ID, Version: route.Version, Name: name, Types: []string{"*"}, Target: name, Kind: "forward"})
		effects[route.ID] = inbox.EffectRoute{Lease: time.Hour}
		m.routes[route.ID] = name
	}
	g, err := gate.New(gate.Config{Pool: inboxtest.Open(t, url, schema, session.PoolGate, 4), Enqueuer: storetest.Queue(), Clock: inboxtest.Clock(t, m.pool)})
	if err == nil {
		err = g.Start(m.ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop(context.WithoutCancel(t.Context())) })
	work := inboxtest.Open(t, url, schema, session.PoolWork, 4)
	if m.store, err = inbox.NewEffects(inbox.EffectsConfig{Pool: work, Enqueuer: storetest.Queue(), Node: "model", Routes: effects}); err != nil {
		t.Fatal(err)
	}
	if m.replays, err = replay.New(replay.Config{Pool: work, Store: m.store}); err != nil {
		t.Fatal(err)
	}
	horizons := prune.Horizons{Body: time.Hour, Tombstone: storetest.KeepDefault.Tombstone, Effects: time.Millisecond, Refusals: time.Hour, Audit: time.Hour}
	if err := prune.RegisterClasses(m.ctx, m.pool, []prune.ClassRow{{Name: "default", Horizons: horizons}}); err != nil {
		t.Fatal(err)
	}
	if m.pruner, err = prune.New(prune.Config{Pool: m.pool, Effects: m.store, Rate: -1}); err != nil {
		t.Fatal(err)
	}
	results, err := operation.New(operation.Config{Pool: m.pool})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(faultyGate{g, &m.planted}, newProvider())
	cfg.Outcomes = faultyOutcomes{results, &m.planted, &m.sent}
	cfg.Now = time.Now
	cfg.Sources = map[string]*receiver.Source{"agents": {
		Inbox: agents, Provider: provider, Repeats: receiver.Repeats{Within: time.Hour, Refuse: true},
		Secrets: func() []providers.Secret { return []providers.Secret{{Name: "agent", Value: []byte("one")}} },
	}}
	m.handler = newReceiver(t, cfg)
	return m
}

// reset begins a walk with nothing recorded.
func (m *model) reset() {
	m.exec(`TRUNCATE inbox_event, inbox_body, effect, effect_attempt, operation_result, operation_follow, recent_call, replay, replay_item, river_job, conflict, audit`)
	m.calls, m.abandoned, m.keys = nil, nil, 0
}

func (m *model) exec(sql string, args ...any) {
	if _, err := m.pool.Exec(m.ctx, sql, args...); err != nil {
		m.fail("%s: %v", sql, err)
	}
}

// modelAnswer is an answer to a caller.
type modelAnswer struct {
	status int
	event  string
	Status any            `json:"status"`
	Code   string         `json:"code"`
	Next   operation.Next `json:"next"`
	Result *struct {
		Status string `json:"status"`
	} `json:"result"`
}

func (m *model) post(key, payload string, headers ...string) modelAnswer {
	req := httptest.NewRequestWithContext(m.ctx, http.MethodPost, "/in/agents", strings.NewReader(payload))
	for i, pairs := 0, append([]string{"Authorization", "Bearer one", "Oncegate-Operation", "charge", "Idempotency-Key", key}, headers...); i < len(pairs); i += 2 {
		req.Header.Set(pairs[i], pairs[i+1])
	}
	return m.ask(req)
}

func (m *model) get(event inbox.ID) modelAnswer {
	req := httptest.NewRequestWithContext(m.ctx, http.MethodGet, "/in/agents/"+event.String(), nil)
	req.Header.Set("Authorization", "Bearer one")
	return m.ask(req)
}

func (m *model) ask(req *http.Request) (a modelAnswer) {
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, req)
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code >= 500 || a.Next == "" {
		m.fail("%s %s: %d %s, %v", req.Method, req.URL, w.Code, w.Body, err)
	}
	a.status, a.event = w.Code, w.Header().Get("Oncegate-Event")
	return a
}

// call makes a call under a new key. It remembers the call if it was recorded.
func (m *model) call(payload string, line *modelLine, headers ...string) (modelAnswer, *modelCall) {
	m.keys++
	key := fmt.Sprint("key-", m.keys)
	m.sent = m.intent([]byte(payload))
	a := m.post(key, payload, headers...)
	if a.status != http.StatusAccepted {
		return a, nil
	}
	id, err := inbox.ParseID(a.event)
	if err != nil {
		m.fail("a call is recorded as %q", a.event)
	}
	if len(headers) == 0 && slices.ContainsFunc(m.calls, func(c *modelCall) bool { return c.payload == payload }) {
		m.fail("payload %s was taken twice", payload)
	}
	if line == nil {
		line = &modelLine{charged: map[string]string{}}
	}
	c := &modelCall{key: key, payload: payload, event: id, line: line}
	m.calls = append(m.calls, c)
	return a, c
}

// check looks at a result.
func (m *model) check(c *modelCall, a modelAnswer) {
	if a.status != http.StatusOK || a.Status != string(operation.ResultDone) {
		return
	}
	for _, route := range m.routes {
		if c.line.charged[route] != c.payload {
			m.fail("call %s with %s is done, and %s was charged with %q", c.key, c.payload, route, c.line.charged[route])
		}
	}
}

func (m *model) any() *modelCall {
	if len(m.calls) == 0 {
		return nil
	}
	return m.calls[m.draw(len(m.calls))]
}

func (m *model) payload() string { return fmt.Sprintf(`{"amount":%d}`, m.draw(3)) }

// step does one thing.
func (m *model) step() {
	c := m.any()
	switch action := m.draw(16); {
	case c == nil || action < 2:
		m.call(m.payload(), nil)
	case action < 3:
		m.check(c, m.post(c.key, c.payload))
	case action < 4:
		m.check(c, m.get(c.event))
	case action < 6:
		m.resume(c, c.payload)
	case action < 7:
		m.resume(c, m.payload())
	case action < 8:
		m.replace(c, m.payload())
	case action < 12:
		m.work(m.draw(7))
	case action < 13:
		m.sweep()
	case action < 14:
		m.resolve()
	case action < 15:
		m.replay()
	default:
		m.prune(c)
	}
}

func (m *model) resume(c *modelCall, payload string) (modelAnswer, *modelCall) {
	return m.call(payload, c.line, receiver.HeaderResumes, c.key)
}

func (m *model) replace(c *modelCall, payload string) modelAnswer {
	a, child := m.call(payload, nil, receiver.HeaderInsteadOf, c.key)
	if child != nil {
		c.line.replaced = true
	}
	return a
}

// end has everybody do what they can, and every caller what next says. Nothing may be left waiting.
func (m *model) end() {
	for _, c := range slices.Clone(m.calls) {
		for tries := 0; ; tries++ {
			if tries > 30 {
				m.fail("call %s does not come to an end: %+v", c.key, m.get(c.event))
			}
			m.sweep()
			for m.resolve() {
				if tries > 30 {
					break
				}
				m.work(0)
			}
			for n := 0; m.work(0) && n < 100; n++ {
			}
			a := m.get(c.event)
			m.check(c, a)
			if a.Next == operation.NextUseResult || c.line.replaced {
				break
			}
			if a.Next == operation.NextAskOperator && !m.replay() && m.dead(c) == 0 {
				break // pruned, and nothing of it can happen any more
			}
			if a.Next == operation.NextReplace {
				if a := m.replace(c, c.payload); a.status != http.StatusAccepted && a.Code != "already_followed" {
					m.fail("call %s was told to be replaced, and refused with %s", c.key, a.Code)
				}
				break
			}
			if a.Next != operation.NextResume {
				continue
			}
			refused, child := m.resume(c, c.payload)
			switch {
			case child != nil:
				c = child
			case refused.Code == "already_followed":
				at := slices.IndexFunc(m.calls, func(other *modelCall) bool { return other.event.String() == refused.event })
				if at < 0 {
					m.fail("call %s is followed by %q, which nobody knows", c.key, refused.event)
				}
				c = m.calls[at]
			default:
				m.fail("call %s was told to resume, and refused with %s", c.key, refused.Code)
			}
		}
	}
}

func (m *model) dead(c *modelCall) (n int) {
	if err := m.pool.QueryRow(m.ctx, `SELECT count(*) FROM effect WHERE event_id = $1 AND state NOT IN ('done', 'superseded', 'skipped', 'duplicate')`, c.event).Scan(&n); err != nil {
		m.fail("%v", err)
	}
	return n
}

func (m *model) walk(steps int) {
	m.reset()
	for range steps {
		m.step()
	}
	m.end()
}

// In any order of actions by callers, workers, operators and pruning, no intent is charged twice, done means charged, and
// no caller waits without end.
func TestOperationsKeepTheirPromise(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	walks := 0
	rapid.Check(t, func(rt *rapid.T) {
		if walks++; walks > 25 && flag.Lookup("rapid.checks").Value.String() == flag.Lookup("rapid.checks").DefValue {
			return // for more, say how many
		}
		m.fail = rt.Fatalf
		m.draw = func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "choice") }
		m.walk(rapid.IntRange(5, 30).Draw(rt, "steps"))
	})
}
