package jobs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// fate is what the model knows of one effect.
type fate struct {
	// decided is when somebody last decided anything about it, by the model's clock, and by
	// is what.
	decided int
	by      string
	// ended is how a person ended it: no attempt may begin until a later act of a person
	// takes it up again.
	ended string
}

const (
	endedDiscarded = "discarded"
	endedDone      = "done"
	endedErased    = "erased"
	endedPruned    = "pruned"
)

// modelPlan is a plan and when it was made, by the model's clock.
type modelPlan struct {
	*replay.Replay
	made    int
	granted map[inbox.ID]bool
}

// decisionModel interleaves plans, runs and decisions at random, and knows what may be
// sent. Its target cannot deduplicate: whatever is sent to it has happened.
type decisionModel struct {
	*bundle
	rng     *rand.Rand
	store   *inbox.Effects
	replays *replay.Store
	pruner  *prune.Pruner
	ids     []inbox.ID
	fates   map[inbox.ID]*fate
	plans   []*modelPlan
	now     int
	trace   []string
	ordered bool

	// after is called after each act: a wrong implementation does its wrong there.
	after func(*bundle)

	sent, grants, decisions int
}

func newDecisionModel(tb testing.TB, seed uint64) *decisionModel {
	tb.Helper()
	m := &decisionModel{bundle: setup(tb), rng: rand.New(rand.NewPCG(seed, seed)), fates: map[inbox.ID]*fate{}}
	ordered := seed%2 == 0
	policy := sequence.Policy{}
	if ordered {
		policy = sequence.Policy{Mode: sequence.Contiguous, Start: "1", OnDead: sequence.DeadBlock, Late: sequence.LateApply}
	}
	m.bundle.order = map[string]sequence.Policy{once: policy}
	var err error
	m.store, err = inbox.NewEffects(inbox.EffectsConfig{
		Pool: m.work, Enqueuer: m.queue, Node: "model",
		Routes: map[int32]inbox.EffectRoute{m.routes[once]: {Order: policy, Lease: m.lease, Retry: m.retry, Rearms: 1000}},
	})
	must(tb, err)
	m.replays = m.bundle.replays(replay.Config{Store: m.store, Chunk: 1 + m.rng.IntN(3)})
	m.pruner, err = prune.New(prune.Config{Pool: m.pool, Effects: m.store, Rate: -1})
	must(tb, err)
	const long = 24 * time.Hour
	must(tb, prune.RegisterClasses(tb.Context(), m.pool, []prune.ClassRow{
		{Name: "default", Horizons: prune.Horizons{Body: long, Tombstone: long, Effects: time.Millisecond, Refusals: long, Audit: long}},
	}))
	m.ordered = ordered
	return m
}

// deliver brings two events, of one sequence key where there is order, each with a payload
// that conflicts with it.
func (m *decisionModel) deliver() {
	var ids []inbox.ID
	if m.ordered {
		ids = m.sequenced(once, fmt.Sprint(m.now), "1", "2")
	} else {
		ids = m.admit(once, 2)
	}
	m.ids = append(m.ids, ids...)
	for _, id := range ids {
		m.fates[id] = &fate{}
		m.conflict(id)
	}
}

// any is one of the effects that are in one of the states, or of all of them if none is;
// what is gone is forgotten.
func (m *decisionModel) any(states ...string) (id inbox.ID, state string) {
	rows, err := m.pool.Query(m.tb.Context(), `SELECT id, state FROM effect`)
	must(m.tb, err)
	all := map[inbox.ID]string{}
	_, err = pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		all[id] = state
		return nil
	})
	must(m.tb, err)
	m.ids = slices.DeleteFunc(m.ids, func(id inbox.ID) bool { return all[id] == "" })
	var found []inbox.ID // in the order in which they came, so that a seed finds them again
	for _, id := range m.ids {
		if slices.Contains(states, all[id]) {
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		found = m.ids
	}
	if len(found) == 0 {
		return inbox.ID{}, ""
	}
	id = found[m.rng.IntN(len(found))]
	return id, all[id]
}

// play makes so many acts at random, and then runs what is left of the plans. It returns
// what was wrong.
func (m *decisionModel) play(acts int) error {
	for range acts {
		if m.count(`SELECT count(*) FROM effect WHERE state NOT IN ('done', 'superseded')`) < 5 {
			m.deliver()
		}
		if err := m.act(m.choose()); err != nil {
			return err
		}
	}
	for _, p := range m.plans {
		for p.State == replay.Running {
			if err := m.act(func() error { return m.step(p) }); err != nil {
				return err
			}
		}
	}
	for range 10 {
		if err := m.act(m.carryOut); err != nil {
			return err
		}
	}
	return nil
}

func (m *decisionModel) act(do func() error) error {
	m.now++
	err := do()
	if m.after != nil {
		m.after(m.bundle)
	}
	if err == nil {
		err = m.stands()
	}
	return err
}

func (m *decisionModel) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf("%d ", m.now)+fmt.Sprintf(format, args...))
}

func (m *decisionModel) choose() func() error {
	planned, running := m.oneOf(replay.Planned), m.oneOf(replay.Running)
	switch n := m.rng.IntN(100); {
	case n < 30:
		return m.carryOut
	case n < 40 || n < 70 && planned == nil && running == nil:
		return m.plan
	case n < 48 && planned != nil || n < 70 && running == nil:
		return func() error { return m.begin(planned) }
	case n < 50: // resumed
		return func() error { return m.begin(running) }
	case n < 58:
		return func() error { return m.step(running) }
	case n < 68:
		return func() error { return m.race(running) }
	case n < 70:
		return func() error { return m.cancel(running) }
	case n < 95:
		kind, id := m.kind()
		return func() error { return m.decide(kind, id) }
	case n < 98:
		return m.admitOther
	default:
		return m.prune
	}
}

// oneOf is one of the plans in a state; nil if there is none.
func (m *decisionModel) oneOf(state replay.State) *modelPlan {
	var found []*modelPlan
	for _, p := range m.plans {
		if p.State == state {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[m.rng.IntN(len(found))]
}

// kind is a decision, and about which effect.
func (m *decisionModel) kind() (string, inbox.ID) {
	id, state := m.any(string(inbox.EffectDead), string(inbox.EffectIndeterminate))
	kinds := []string{"discard", "discard", "erase", "rearm"}
	if state == string(inbox.EffectIndeterminate) {
		kinds = []string{"resolve done", "resolve done", "probe done", "resend"}
	}
	if m.ordered {
		kinds = append(kinds, "skip", "unblock")
	}
	return kinds[m.rng.IntN(len(kinds))], id
}

// carryOut has a worker take one effect whose turn it is, and send it.
func (m *decisionModel) carryOut() error {
	id, state := m.any(string(inbox.EffectPending))
	if state != string(inbox.EffectPending) {
		return nil
	}
	claim := m.try(m.store, id)
	if claim == nil {
		return nil
	}
	f := m.fates[id]
	if claim.Event.BodyGone {
		m.note("worker: the body of %s is gone", id)
		m.end(m.store, claim, inbox.EffectDead)
		return nil
	}
	m.sent++
	end := []inbox.EffectState{inbox.EffectDone, inbox.EffectDead, inbox.EffectDead, inbox.EffectIndeterminate}[m.rng.IntN(4)]
	m.note("worker: sent %s, %s", id, end)
	if f.ended != "" {
		return fmt.Errorf("%s was sent after a person ended it: %s", id, f.ended)
	}
	m.end(m.store, claim, end)
	return nil
}

func (m *decisionModel) plan() error {
	all := []replay.Options{
		{}, {}, {IncludeIndeterminate: true}, {IncludeDiscarded: true}, {IncludeDone: true, NewKey: true},
		{IncludeIndeterminate: true, IncludeDiscarded: true, IncludeDone: true, NewKey: true},
	}
	scope, options := everything(), all[m.rng.IntN(len(all))]
	if m.rng.IntN(2) == 0 {
		id, _ := m.any(string(inbox.EffectDead), string(inbox.EffectIndeterminate), string(inbox.EffectSkipped))
		scope = replay.Scope{IDs: []inbox.ID{id}}
	}
	p := &modelPlan{Replay: plan(m.tb, m.replays, scope, options), made: m.now, granted: map[inbox.ID]bool{}}
	m.note("plan %s %+v: %d to do", p.ID, options, p.Summary.ToDo)
	if p.Summary.ToDo > 0 {
		m.plans = append(m.plans, p)
	}
	return nil
}

// begin runs a plan, or resumes it.
func (m *decisionModel) begin(p *modelPlan) error {
	replay, err := m.replays.Start(m.tb.Context(), replay.StartRequest{ID: p.ID, Digest: p.Digest, Actor: actor, Reason: why})
	m.note("run %s: %v", p.ID, err)
	if err == nil {
		p.State = replay.State
	}
	return err
}

func (m *decisionModel) cancel(p *modelPlan) error {
	replay, err := m.replays.Cancel(m.tb.Context(), replay.CancelRequest{ID: p.ID, Actor: actor, Reason: why})
	m.note("cancel %s: %v", p.ID, err)
	if err == nil {
		p.State = replay.State
	}
	return err
}

func (m *decisionModel) step(p *modelPlan) error {
	step, err := m.replays.Step(m.tb.Context(), p.ID)
	m.note("step of %s: %d items, %v", p.ID, step.Items, err)
	if err != nil {
		return err
	}
	p.State = step.State
	return m.allow(p)
}

// allow judges what the steps of a plan have set going since it was last asked.
func (m *decisionModel) allow(p *modelPlan) error {
	items, err := inboxtest.Rows(m.replays.Items(m.tb.Context(), p.ID, replay.ItemFilter{Outcome: replay.ItemReplayed, Limit: 1000}))
	if err != nil {
		return err
	}
	for i := range items {
		id := *items[i].Effect
		if p.granted[id] {
			continue
		}
		p.granted[id] = true
		m.grants++
		f, o := m.fates[id], p.Options
		m.note("%s is set going by the plan of %d", id, p.made)
		switch {
		case f.decided >= p.made:
			return fmt.Errorf("the plan of %d set %s going, about which somebody decided at %d: %s", p.made, id, f.decided, f.by)
		case f.ended == endedDiscarded && !o.IncludeDiscarded, f.ended == endedDone && !o.IncludeDone, f.ended == endedErased, f.ended == endedPruned:
			return fmt.Errorf("the plan of %d with %+v set %s going, which was ended at %d: %s", p.made, o, id, f.decided, f.by)
		}
		f.ended = ""
	}
	return nil
}

// stands says whether what a person ended is at its end.
func (m *decisionModel) stands() error {
	rows, err := m.pool.Query(m.tb.Context(), `SELECT id, state FROM effect WHERE state IN ('pending', 'claimed', 'retry', 'held')`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id inbox.ID
		var state string
		if err := rows.Scan(&id, &state); err != nil {
			return err
		}
		if ended := m.fates[id].ended; ended != "" && ended != endedErased {
			return fmt.Errorf("%s is %s after a person ended it: %s", id, state, ended)
		}
	}
	return rows.Err()
}
