package jobs_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
)

// decide makes one decision, and writes it down if it was taken.
func (m *decisionModel) decide(kind string, id inbox.ID) error {
	taken, ended, err := m.decision(kind, id)
	m.note("%s %s: %t, %v", kind, id, taken, err)
	if taken {
		m.decided(id, kind, ended)
	}
	return err
}

func (m *decisionModel) decided(id inbox.ID, by, ended string) {
	m.decisions++
	f := m.fates[id]
	f.decided, f.by = m.now, by
	switch {
	case f.ended == endedErased: // for ever
	case ended == "again":
		f.ended = ""
	case ended != "":
		f.ended = ended
	}
}

// decision tries a decision about one effect: whether it was taken, and how it ended the
// effect.
func (m *decisionModel) decision(kind string, id inbox.ID) (taken bool, ended string, err error) {
	ctx := m.tb.Context()
	switch kind {
	case "discard":
		ended = endedDiscarded
		var out decide.Discarded
		out, err = decide.New(m.store).Discard(ctx, decide.Discard{IDs: []inbox.ID{id}, Actor: decider, Reason: decided})
		if err == nil && out.Discarded == 0 {
			err = inbox.ErrState
		}
	case "resolve done", "probe done":
		ended = endedDone
		err = decide.New(m.store).Resolve(ctx, decide.Resolve{Effect: id, As: decide.ResolveDone, Actor: kind, Reason: decided})
	case "resend":
		ended = "again"
		err = decide.New(m.store).Resolve(ctx, decide.Resolve{Effect: id, As: decide.ResolveResend, Actor: decider, Reason: decided})
	case "skip", "unblock":
		if kind == "skip" {
			ended = endedDiscarded
		}
		err = m.passStream(id, decide.StreamPass(kind))
	case "erase":
		ended = endedErased
		_, err = prune.EraseEvent(ctx, m.pool, prune.Erase{Source: "shop", EventID: id.String(), Actor: decider, Reason: decided})
	case "rearm": // a provider's, and nobody's decision
		m.exec(`UPDATE effect SET rearmed_at = NULL WHERE id = $1`, id)
		_, err = m.store.Rearm(ctx, id)
		return false, "", err
	}
	for _, refused := range []error{inbox.ErrState, inbox.ErrNotFound, decide.ErrStream, prune.ErrInFlight, inbox.ErrLocked} {
		if errors.Is(err, refused) {
			return false, "", nil
		}
	}
	return err == nil, ended, err
}

func (m *decisionModel) passStream(blocker inbox.ID, as decide.StreamPass) error {
	rows, err := inboxtest.Rows(inboxtest.Lister(m.pool).Streams(m.tb.Context(), read.StreamFilter{Blocked: true}))
	if err != nil {
		return err
	}
	for i := range rows {
		if *rows[i].BlockedBy == blocker {
			return decide.New(m.store).PassStream(m.tb.Context(), decide.PassStream{Stream: rows[i].ID, As: as, Blocker: blocker, Actor: decider, Reason: decided})
		}
	}
	return decide.ErrStream
}

// race has a step and a decision meet. If the decision was taken, the step must not have
// set the effect going: it could not have been taken after that.
func (m *decisionModel) race(p *modelPlan) error {
	kind, id := m.kind()
	if kind == "rearm" {
		return nil
	}
	var all sync.WaitGroup
	var taken bool
	var ended string
	var decisionErr, stepErr error
	var step replay.Step
	all.Go(func() { taken, ended, decisionErr = m.decision(kind, id) })
	all.Go(func() { step, stepErr = m.replays.Step(m.tb.Context(), p.ID) })
	all.Wait()
	m.note("%s %s: %t, %v, beside a step of %s: %v", kind, id, taken, decisionErr, p.ID, stepErr)
	if err := errors.Join(decisionErr, stepErr); err != nil {
		return err
	}
	p.State = step.State
	if taken {
		m.decided(id, kind, ended)
	}
	return m.allow(p)
}

// admitOther admits the payload that conflicts with one of the events.
func (m *decisionModel) admitOther() error {
	id, state := m.any(string(inbox.EffectDead), string(inbox.EffectIndeterminate), string(inbox.EffectSkipped))
	if state == "" {
		return nil
	}
	err := m.admitConflictOf(id)
	m.note("admit a conflict of %s: %v", id, err)
	switch {
	case errors.Is(err, inbox.ErrNotFound): // erased
		return nil
	case err == nil:
		m.decided(id, "admit", "")
	}
	return err
}

// prune removes what is settled, and what is at rest if it is named.
func (m *decisionModel) prune() error {
	run := prune.Run{Anew: true}
	if m.rng.IntN(2) == 0 {
		run.Include, run.Actor, run.Reason = []prune.Prunable{prune.Dead, prune.Indeterminate}, decider, decided
	}
	if m.rng.IntN(2) == 0 {
		run.Include, run.Actor, run.Reason = append(run.Include, prune.Replay), decider, decided
	}
	report, err := m.pruner.Run(m.tb.Context(), run)
	m.note("prune %v: %v, %v", run.Include, report.Rows, err)
	for _, id := range m.ids {
		if m.count(`SELECT count(*) FROM effect WHERE id = $1 AND reason IS DISTINCT FROM 'pruned'`, id) == 0 {
			m.fates[id].ended, m.fates[id].decided, m.fates[id].by = endedPruned, m.now, "prune"
		}
	}
	return err
}

// conflict stores a payload that conflicts with an event, under the event's id.
func (b *bundle) conflict(event inbox.ID) {
	b.tb.Helper()
	b.exec(`INSERT INTO conflict (id, event_id, source_id, payload_sha256, sha256, paths, type, sequence_key, sequence_number, id_unsigned,
			first_seen_at, last_seen_at, headers, body)
		VALUES ($1, $1, $2, sha256('other'), sha256('other'), '{}', 't', '', '', false, now(), now(), '{}', 'other')`, event, b.source)
}

func (b *bundle) admitConflictOf(event inbox.ID) error {
	_, err := decide.AdmitConflict{
		Pool: b.pool, Gate: admitsAll{}, Clock: inbox.NewClock(b.pool, time.Now), Source: &inbox.Source{ID: b.source, Name: "shop"},
		Conflict: event, Actor: decider, Reason: decided,
	}.Run(b.tb.Context())
	return err
}

// admitsAll is a gate that has room for everything: what is admitted is no effect of the
// model.
type admitsAll struct{}

func (admitsAll) Accept(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	return inbox.Receipt{Items: []inbox.ItemReceipt{{ID: inbox.NewID(a.ReceivedAt), Outcome: inbox.Recorded}}}, nil
}
