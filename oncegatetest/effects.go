package oncegatetest

import (
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
)

// The states of effects. docs/reference/states.md explains them.
const (
	Pending       = string(inbox.EffectPending)
	Claimed       = string(inbox.EffectClaimed)
	Retry         = string(inbox.EffectRetry)
	Held          = string(inbox.EffectHeld)
	Done          = string(inbox.EffectDone)
	Dead          = string(inbox.EffectDead)
	Indeterminate = string(inbox.EffectIndeterminate)
	Superseded    = string(inbox.EffectSuperseded)
	Skipped       = string(inbox.EffectSkipped)
	Duplicate     = string(inbox.EffectDuplicate)
)

// Effect is what became of an event at one route.
type Effect struct {
	Route, Target string

	// State is one of the states above.
	State string

	// Reason is why an attempt failed, or why the effect is in its state. It is empty if there is none.
	Reason string

	// Attempts is how often the effect was attempted.
	Attempts int

	// Code is the target's own code of the last attempt: a status, an SQLSTATE or a reply code.
	Code string

	// Text is what the last attempt said: the beginning of a target's reply, or the error of a handler.
	Text string
}

// Effects returns the effects of an event by the sender's id, oldest first: at most 1,000 of them, and the first 100 items of a list.
// It fails the test if the event is not recorded. It does not wait: see [Inbox.Wait].
func (i *Inbox) Effects(tb testing.TB, source, eventID string) []Effect {
	tb.Helper()
	i.source(tb, source)
	event, err := i.lister.Event(tb.Context(), source+"/"+eventID)
	if err != nil {
		tb.Fatalf("oncegatetest: event %s of source %s: %v", eventID, source, err)
	}
	out := make([]Effect, len(event.Effects))
	for n, row := range event.Effects {
		out[len(out)-1-n] = i.effect(tb, row)
	}
	return out
}

// Effect is like [Inbox.Effects] for one route. It fails the test if the event has no effect there.
func (i *Inbox) Effect(tb testing.TB, source, eventID, route string) Effect {
	tb.Helper()
	effects := i.Effects(tb, source, eventID)
	for _, e := range effects {
		if e.Route == route {
			return e
		}
	}
	tb.Fatalf("oncegatetest: event %s of source %s has no effect at route %q: it has %d effects", eventID, source, route, len(effects))
	return Effect{}
}

func (i *Inbox) effect(tb testing.TB, row read.EffectRow) Effect {
	tb.Helper()
	e := Effect{Route: row.Route, Target: row.Target, State: row.State, Reason: row.Reason, Attempts: row.Attempts, Code: row.Code}
	detail, err := i.lister.Effect(tb.Context(), row.ID)
	if err != nil {
		tb.Fatalf("oncegatetest: reading effect %s: %v", row.ID, err)
	}
	if n := len(detail.AttemptRows); n > 0 {
		e.Text = detail.AttemptRows[n-1].Excerpt
	}
	return e
}
