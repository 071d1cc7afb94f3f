package receiver_test

import (
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
)

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
		s.State, s.Outcome, s.Reason = inbox.EffectDead, inbox.AttemptDead, reasons.Exhausted
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
		s.State, s.Reason, s.DuplicateOf = inbox.EffectDuplicate, reasons.ParentDone, parent.Effect
	case inbox.ParentGone:
		if m.planted == prunedIsNone || claim.Trigger == inbox.TriggerManual {
			return false
		}
		s.State, s.Reason = inbox.EffectIndeterminate, reasons.ParentGone
	case inbox.ParentOpen:
		s.State, s.Reason, s.After = inbox.EffectPending, reasons.ParentOpen, time.Second
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
			State: inbox.EffectIndeterminate, Reason: reasons.LeaseExpired, Outcome: inbox.AttemptIndeterminate})
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
	as := decide.ResolveResend
	if _, charged := c.line.charged[m.routes[route]]; charged {
		as = decide.ResolveDone
	}
	if err := decide.New(m.store).Resolve(m.ctx, decide.Resolve{Effect: id, As: as, Actor: "model", Reason: "the target says so"}); err != nil && !errors.Is(err, inbox.ErrCalledAgain) {
		m.fail("resolving: %v", err)
	}
	return true
}

// replay has an operator replay everything that is dead.
func (m *model) replay() bool {
	p, err := m.replays.Plan(m.ctx, replay.PlanRequest{Scope: replay.Scope{DeadFilter: read.DeadFilter{Source: "agents"}}, Actor: "model"})
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

// prune has prune take what is past its horizon, which is a moment after the end in this model, perhaps with what an operator includes by
// name; or erases the call.
func (m *model) prune(c *modelCall) {
	if m.draw(4) == 0 {
		_, err := prune.EraseEvent(m.ctx, m.pool, prune.Erase{Source: "agents", EventID: "agent:charge:" + c.key, Actor: "model", Reason: "a person asked for it"})
		if err != nil && !errors.Is(err, prune.ErrInFlight) {
			m.fail("erasing: %v", err)
		}
		return
	}
	run := prune.Run{Anew: true}
	if include := [][]prune.Prunable{nil, nil, {prune.Dead}, {prune.Dead, prune.Indeterminate}}[m.draw(4)]; include != nil {
		run.Include, run.Actor, run.Reason = include, "model", "nobody wants them any more"
	}
	if report, err := m.pruner.Run(m.ctx, run); err != nil || !report.Obtained {
		m.fail("pruning: %+v, %v", report, err)
	}
}
