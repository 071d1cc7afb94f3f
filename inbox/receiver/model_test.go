package receiver_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/session"
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

// fault is a mistake that is planted: each of those that this design removed.
type fault string

const (
	unsettledInsist fault = "a call takes the place of one that is not settled"
	partialRepeated fault = "a call that goes on after partial does all of it"
	otherPayload    fault = "a call resumes with another payload"
	resumedTwice    fault = "two calls resume one"
	prunedIsNone    fault = "a pruned effect counts as one that did not happen"
	noNote          fault = "no note says that a call was made"
)

// faultyGate plants what the gate would not let through.
type faultyGate struct {
	receiver.Accepter
	fault *fault
}

func (g faultyGate) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	e := &a.Events[0]
	switch f := e.Follows; {
	case *g.fault == noNote:
		e.Recent = nil
	case f == nil:
	case *g.fault == resumedTwice && f.Kind == inbox.FollowResumes:
		f.Intent = [32]byte([]byte(fmt.Sprintf("%-32.32s", e.EventID)))
		e.Recent = nil
	case *g.fault == unsettledInsist, *g.fault == partialRepeated && f.Kind == inbox.FollowResumes:
		e.Follows, e.Recent = nil, nil
	}
	return g.Accepter.Accept(ctx, a)
}

// faultyOutcomes plants wrong outcomes for the receiver.
type faultyOutcomes struct {
	*inbox.Operations
	fault *fault
	sent  *[]byte // the intent hash of the payload that was sent last
}

func (o faultyOutcomes) Await(ctx context.Context, event inbox.ID, atMost time.Duration) ([]byte, bool, error) {
	document, ok, err := o.Operations.Await(ctx, event, atMost)
	if *o.fault == unsettledInsist && !ok {
		return []byte(`{"status":"failed","next":"resume"}`), true, err
	}
	return document, ok, err
}

func (o faultyOutcomes) FollowedCall(ctx context.Context, f *inbox.Follow) (*inbox.FollowedCall, error) {
	call, err := o.Operations.FollowedCall(ctx, f)
	if call != nil && *o.fault == resumedTwice {
		call.Follower = inbox.ID{}
	}
	if call != nil && *o.fault == otherPayload && f.Kind == inbox.FollowResumes {
		call.Intent = *o.sent // that the earlier call has another one is not noticed
	}
	return call, err
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
	operation := catalogtest.Load(t)["operation"]
	agents := &inbox.Source{ID: registered["agents"].ID, Name: "agents", Class: "default", Strict: true, Canonical: operation.Canonical, Differences: operation.Differences, Tombstone: 30 * 24 * time.Hour}
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
	results, err := inbox.NewOperations(inbox.OperationsConfig{Pool: m.pool})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(faultyGate{g, &m.planted}, newProvider())
	cfg.Outcomes = faultyOutcomes{results, &m.planted, &m.sent}
	cfg.Now = time.Now
	cfg.Sources = map[string]*receiver.Source{"agents": {
		Inbox: agents, Provider: operation, Repeats: receiver.Repeats{Within: time.Hour, Refuse: true},
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
	Status any        `json:"status"`
	Code   string     `json:"code"`
	Next   inbox.Next `json:"next"`
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
	if a.status != http.StatusOK || a.Status != string(inbox.ResultDone) {
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
		if _, child := m.call(m.payload(), nil, receiver.HeaderInsteadOf, c.key); child != nil {
			c.line.replaced = true
		}
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

// charge is what a target does when something arrives.
func (m *model) charge(claim *inbox.Claim) {
	at := slices.IndexFunc(m.calls, func(c *modelCall) bool { return c.event == claim.Event.ID })
	c, route := m.calls[at], m.routes[claim.RouteID]
	if c.line.replaced {
		m.fail("call %s is charged at %s although another one has taken its place", c.key, route)
	}
	if _, twice := c.line.charged[route]; twice {
		m.fail("%s is charged twice for the intent of call %s", route, c.key)
	}
	c.line.charged[route] = c.payload
}

// work has a worker claim the effect that is due first, and make an attempt. how chooses the attempt's outcome.
func (m *model) work(how int) bool {
	var id inbox.ID
	var job int64
	err := m.pool.QueryRow(m.ctx, `SELECT id, coalesce(job_id, 0) FROM effect WHERE state IN ('pending', 'retry') ORDER BY next_at, id LIMIT 1`).Scan(&id, &job)
	if errors.Is(err, pgx.ErrNoRows) {
		return false
	}
	m.exec(`UPDATE effect SET next_at = now() WHERE id = $1`, id)
	claim, _, err := m.store.Claim(m.ctx, id, job)
	if err != nil || claim == nil {
		m.fail("claiming an effect that is due: %v, %v", claim, err)
	}
	s := inbox.Settlement{Effect: id, Token: claim.Token, Trigger: claim.Trigger, StartedAt: claim.StartedAt, RouteID: claim.RouteID}
	if m.leftOut(claim, &s) {
		m.settle(s)
		return true
	}
	switch how {
	case 0, 1, 2: // it happened
		m.charge(claim)
		s.State, s.Outcome = inbox.EffectDone, inbox.AttemptDone
	case 3, 4: // it certainly did not
		s.State, s.Outcome, s.Reason = inbox.EffectDead, inbox.AttemptDead, inbox.ReasonExhausted
	case 5: // the worker is killed after it sent
		m.charge(claim)
		m.abandoned = append(m.abandoned, claim)
		return true
	default: // or before
		m.abandoned = append(m.abandoned, claim)
		return true
	}
	m.settle(s)
	return true
}

// leftOut is what a worker does about the call that the claim's call resumes, as package jobs does it.
func (m *model) leftOut(claim *inbox.Claim, s *inbox.Settlement) bool {
	if claim.Event.Parent.IsZero() {
		return false
	}
	parent, err := m.store.ParentEffect(m.ctx, nil, claim)
	if err != nil {
		m.fail("asking for the parent: %v", err)
	}
	switch parent.State {
	case inbox.ParentDone:
		s.State, s.Reason, s.DuplicateOf = inbox.EffectDuplicate, inbox.ReasonParentDone, parent.Effect
	case inbox.ParentGone:
		if m.planted == prunedIsNone || claim.Trigger == inbox.TriggerManual {
			return false
		}
		s.State, s.Reason = inbox.EffectIndeterminate, inbox.ReasonParentGone
	case inbox.ParentOpen:
		s.State, s.Reason, s.After = inbox.EffectPending, inbox.ReasonParentOpen, time.Second
	default:
		return false
	}
	return true
}

func (m *model) settle(s inbox.Settlement) {
	if settled, err := m.store.Settle(m.ctx, s); err != nil || !settled.Applied {
		m.fail("settling as %s: %+v, %v", s.State, settled, err)
	}
}

// sweep gives up what a killed worker has left: its target cannot deduplicate, so the outcome is unknown.
func (m *model) sweep() {
	for _, claim := range m.abandoned {
		m.settle(inbox.Settlement{Effect: claim.Effect, Token: claim.Token, Trigger: claim.Trigger, StartedAt: claim.StartedAt, RouteID: claim.RouteID,
			State: inbox.EffectIndeterminate, Reason: inbox.ReasonLeaseExpired, Outcome: inbox.AttemptIndeterminate})
	}
	m.abandoned = nil
}

// resolve has a person, who looked at the target, decide about an effect whose outcome is unknown.
func (m *model) resolve() bool {
	var id, event inbox.ID
	var route int32
	err := m.pool.QueryRow(m.ctx, `SELECT id, event_id, route_id FROM effect WHERE state = 'indeterminate' ORDER BY id LIMIT 1`).Scan(&id, &event, &route)
	if errors.Is(err, pgx.ErrNoRows) {
		return false
	}
	c := m.calls[slices.IndexFunc(m.calls, func(c *modelCall) bool { return c.event == event })]
	as := inbox.ResolveResend
	if _, charged := c.line.charged[m.routes[route]]; charged {
		as = inbox.ResolveDone
	}
	if err := m.store.Resolve(m.ctx, inbox.Resolve{Effect: id, As: as, Actor: "model", Reason: "the target says so"}); err != nil && !errors.Is(err, inbox.ErrCalledAgain) {
		m.fail("resolving: %v", err)
	}
	return true
}

// replay has an operator replay everything that is dead.
func (m *model) replay() bool {
	p, err := m.replays.Plan(m.ctx, replay.PlanRequest{Scope: replay.Scope{DeadFilter: inbox.DeadFilter{Source: "agents"}}, Actor: "model"})
	if err != nil || p.Summary.ToDo == 0 {
		return false // nothing is dead
	}
	if _, err = m.replays.Start(m.ctx, replay.StartRequest{ID: p.ID, Digest: p.Digest, Actor: "model", Reason: "the target is mended"}); err != nil {
		m.fail("starting a replay: %v", err)
	}
	for {
		step, err := m.replays.Step(m.ctx, p.ID)
		if err != nil {
			m.fail("replaying: %v", err)
		}
		if step.State != replay.Running {
			return true
		}
	}
}

// prune removes an effect of a call whose effects are all settled, as prune may; or erases the call.
func (m *model) prune(c *modelCall) {
	if m.draw(4) == 0 {
		_, err := prune.EraseEvent(m.ctx, m.pool, prune.Erase{Source: "agents", EventID: "agent:charge:" + c.key, Actor: "model", Reason: "a person asked for it"})
		if err != nil && !errors.Is(err, prune.ErrInFlight) {
			m.fail("erasing: %v", err)
		}
		return
	}
	m.exec(`DELETE FROM effect WHERE id IN (SELECT e.id FROM effect e WHERE e.event_id = $1 ORDER BY e.id LIMIT $2)
		AND NOT EXISTS (SELECT FROM effect f WHERE f.event_id = $1 AND f.state NOT IN ('done', 'superseded', 'skipped', 'duplicate'))`, c.event, 1+m.draw(2))
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
			if a.Next == inbox.NextUseResult || c.line.replaced {
				break
			}
			if a.Next == inbox.NextAskOperator && !m.replay() && m.dead(c) == 0 {
				break // pruned, and nothing of it can happen any more
			}
			if a.Next != inbox.NextResume {
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

// The model notices each mistake that was there before.
func TestTheModelNoticesMistakes(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	for _, m.planted = range []fault{unsettledInsist, partialRepeated, otherPayload, resumedTwice, prunedIsNone, noNote} {
		said := ""
		for seed := uint64(0); seed < 200 && said == ""; seed++ {
			m.draw = rand.New(rand.NewPCG(seed, 28)).IntN
			said = m.noticed(30)
		}
		if said == "" {
			t.Errorf("%s: 200 walks noticed nothing", m.planted)
		}
		t.Logf("%s: %s", m.planted, said)
	}
}

// noticed is what a walk found wrong; empty if nothing.
func (m *model) noticed(steps int) (said string) {
	type found string
	defer func() {
		if value := recover(); value != nil {
			text, ok := value.(found)
			if !ok {
				panic(value)
			}
			said = string(text)
		}
	}()
	m.fail = func(format string, args ...any) { panic(found(fmt.Sprintf(format, args...))) }
	m.walk(steps)
	return ""
}
