package failover

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/history"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Needless is a violation that only this campaign can find: effects became indeterminate although nothing was missing. The others are the
// names of invariants.
const Needless rig.Kind = "needless"

// check stops the load, waits for the effects, and compares what was acknowledged and what the targets received with the database.
func (c *campaign) check(ctx context.Context) ([]rig.Violation, error) {
	c.stopSending()
	c.sending.Wait()
	db, err := rig.Connect(ctx, c.primary.DSN(), c.Schema)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := rig.Rest(ctx, db, waitLimit); err != nil { // an invariant names the effects that are left
		return nil, err
	}
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	// The tables are read before the targets' ledgers, so that every effect that the tables call done is in the ledgers.
	stored, err := invariant.Read(ctx, db)
	if err != nil {
		return nil, err
	}
	e := &invariant.Evidence{Stored: stored, Sent: c.seen.sent, Routes: []invariant.Route{
		{Name: "once", Kind: invariant.Once, Requests: c.seen.once.Requests()},
		{Name: "keyed", Kind: invariant.Idempotent, Requests: c.seen.keyed.Requests()},
		{Name: "table", Kind: invariant.Table},
	}}
	current := map[string]trace{}
	if err := c.readTraces(ctx, c.primary, time.Time{}, "the primary", current); err != nil {
		return nil, err
	}
	c.summarise(e, current)
	var found []rig.Violation
	for _, v := range invariant.Violations(invariant.Check(e)) {
		if !c.options.Synchronous && (v.Kind == invariant.Recorded || v.Kind == invariant.Authentic) {
			continue // a failover to an asynchronous standby may lose events that were acknowledged and sent
		}
		if requests := c.seen.requests[v.Event]; v.Kind == invariant.AtMostOnce && len(requests) > 1 {
			v.Detail += ": " + c.explain(requests, current)
		}
		found = append(found, v)
	}
	verdicts, err := rig.CountBy(ctx, db, `SELECT verdict, count(*) FROM database_history GROUP BY 1`)
	if err != nil {
		return nil, err
	}
	s := &c.summary
	s.Whole, s.SetAside = verdicts[string(history.Whole)], verdicts[string(history.Restored)]
	if c.options.Synchronous && s.SetAside > 0 {
		found = append(found, rig.NewViolation(Needless, "%d timelines count as restored, with %d effects", s.SetAside, s.Restored))
	}
	return found, nil
}

// summarise counts what was recorded and what the targets received. The caller must have locked c.seen.mu.
func (c *campaign) summarise(e *invariant.Evidence, current map[string]trace) {
	s := &c.summary
	s.Acked, s.Recorded, s.Applied = len(c.seen.ackedAt), len(e.Events), len(e.Applied)
	recorded := map[string]bool{}
	for i := range e.Events {
		recorded[e.Events[i].EventID] = true
	}
	for event := range c.seen.ackedAt {
		if !recorded[event] {
			s.Lost++
		}
	}
	for row, t := range c.former {
		if current[row].event == "" && recorded[t.event] {
			s.RecordedAgain++
		}
	}
	once, keyed := e.Routes[0].Requests, e.Routes[1].Requests
	for i := range e.Effects {
		if e.Effects[i].Route != "once" {
			continue
		}
		s.Once++
		if inbox.EffectState(e.Effects[i].State) != inbox.EffectIndeterminate {
			continue
		}
		s.Indeterminate++
		if e.Effects[i].Reason == string(reasons.Restored) {
			s.Restored++
		}
		if once[e.Effects[i].Event].Complete == 0 {
			s.NeverArrived++
		}
	}
	for _, requests := range once {
		if requests.Complete > 1 {
			s.Doubled++
		}
	}
	for event, requests := range keyed {
		if recorded[event] && requests.Complete > 1 {
			s.SentAgain++
		}
	}
}
