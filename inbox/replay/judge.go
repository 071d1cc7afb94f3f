package replay

import (
	"context"
	"encoding/json"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// Verdict says how today's configuration would handle an effect, compared with what was
// recorded. Stored in a plan's items: never change.
type Verdict string

// The verdicts.
const (
	// VerdictSame: the same request would be sent, under the same key.
	VerdictSame Verdict = "same"
	// VerdictDone: the effect happened, or its sequence has passed it, so nothing is sent.
	VerdictDone Verdict = "skipped_done"
	// VerdictOtherTarget: the route has another target now.
	VerdictOtherTarget Verdict = "other_target"
	// VerdictOtherBody: another body would be sent.
	VerdictOtherBody Verdict = "other_body"
	// VerdictOtherKey: the key would differ, so the target could not recognise a request that it
	// may have seen.
	VerdictOtherKey Verdict = "other_key"
	// VerdictNoRoute: the route no longer applies: it is gone, no longer takes the type, or
	// its condition is false.
	VerdictNoRoute Verdict = "no_route"
	// VerdictNewRoute: the route takes the event today, and did not when the event arrived.
	VerdictNewRoute Verdict = "new_route"
	// VerdictCannotRender: the request cannot be rendered (the body is gone, a mapping fails).
	VerdictCannotRender Verdict = "cannot_render"
)

// Verdicts returns all verdicts.
func Verdicts() []Verdict {
	return []Verdict{
		VerdictSame, VerdictDone, VerdictOtherTarget, VerdictOtherBody, VerdictOtherKey, VerdictNoRoute, VerdictNewRoute, VerdictCannotRender,
	}
}

// RecordedEvent is an event with the present states of its effects, read for a plan or an audit.
type RecordedEvent struct {
	Event    inbox.ClaimedEvent
	SourceID int32
	Source   string

	// Delivery is the whole body as received; nil if it is gone. The event's bytes are Length
	// bytes of it from Offset.
	Delivery       []byte
	Offset, Length int
	Item           int

	// NewKey: the plan asks for new idempotency keys, under which everything is
	// rendered again.
	NewKey bool

	// EffectsSince is the time since which no effect of the source was pruned; zero if that
	// is not known. DeadLetter: the event was recorded without effects, as unusable or beyond
	// retention.
	EffectsSince time.Time
	DeadLetter   bool

	// Discarded: an operator discarded the event, which has no effects.
	Discarded bool

	// Includes reports whether the plan includes effects that were skipped for a reason. nil includes none.
	Includes func(reasons.Reason) bool

	// ForgetUnknown: the plan includes effects that may have happened, and a run forgets since
	// when that is so.
	ForgetUnknown bool

	// Effects are the event's effects in any state. Of the items of lists, only those in
	// the page of the plan are included; an audit includes none.
	Effects []RecordedEffect
}

// RecordedEffect is one effect of a [RecordedEvent].
type RecordedEffect struct {
	Effect       inbox.ID
	RouteID      int32
	Route        string
	RouteVersion int
	Target       string // as the route table named it last
	Item         int
	State        inbox.EffectState
	Reason       reasons.Reason
	Version      int
	Key          string
	KeyHash      []byte

	// Attempts counts those made under Version.
	Attempts int

	// UnknownSince is the start of the first attempt whose outcome at an idempotent target is
	// unknown; zero if there is none.
	UnknownSince time.Time

	// Lost: the bytes stored before the first send are sealed and cannot be opened here.
	// MissingKey is the key that they need; 0 if they are damaged.
	Lost       bool
	MissingKey int32

	// Rendered are the bytes stored before the first send; nil if nothing was sent or the
	// body was sent as received. A replay under the effect's own key sends these bytes
	// again, because one key must always mean one body.
	Rendered []byte

	// Fetched is the stored answer of the route's fetch, or nil. Judging fetches nothing.
	Fetched []byte

	// Applied is the number up to which the effect's stream is applied; empty if the
	// effect has no sequence.
	SequenceKeyHash []byte
	SequenceNumber  string
	Applied         string

	LastCode   string
	FinishedAt time.Time

	// Result is the stored part of the target's reply, if an audit asks for results; nil if nothing was stored or if it
	// cannot be opened here.
	Result []byte
}

// Judgement says what would happen to one effect today. Effect is zero for a route that is
// new to the event.
type Judgement struct {
	Effect  inbox.ID
	RouteID int32
	Verdict Verdict

	// Ordered: the route is new to the event and ordered, so that an effect created now
	// would have no place in its sequence.
	Ordered bool

	// Diff is a [Diff] as JSON: the recorded request and today's, with redacted fields masked.
	// The plan seals it before it stores it.
	Diff json.RawMessage
}

// Judge compares a recorded event with what today's configuration would do with it. It
// extracts id, type and sequence again, verifies the signature with today's secrets (for
// information), matches the routes and renders the requests. It performs no effect
// and writes nothing. It returns a judgement for every effect of r, and for every route
// that would take the event and has no effect of it.
//
// A replay follows the verdict. With [VerdictNoRoute] or [VerdictCannotRender] it leaves the
// effect alone, and with [VerdictDone] nothing is sent. With any other verdict it sends a
// request, as the diff describes it. The wiring implements Judge, because only the wiring
// knows providers, routes and targets.
type Judge interface {
	Judge(ctx context.Context, r *RecordedEvent) ([]Judgement, error)
}
