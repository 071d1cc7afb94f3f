package replay

import (
	"context"
	"encoding/json"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// Verdict is how what would happen today differs from what was recorded. Stored in
// a plan's items: never change.
type Verdict string

// The verdicts.
const (
	// VerdictSame: the same request would leave, under the same key.
	VerdictSame Verdict = "same"
	// VerdictDone: it happened, or its sequence has passed it: nothing is sent.
	VerdictDone Verdict = "skipped_done"
	// VerdictOtherTarget: the route leads elsewhere now.
	VerdictOtherTarget Verdict = "other_target"
	// VerdictOtherBody: another body would be sent.
	VerdictOtherBody Verdict = "other_body"
	// VerdictOtherKey: the target would not recognise it as the one it may have seen.
	VerdictOtherKey Verdict = "other_key"
	// VerdictNoRoute: no route leads there any more: it is gone, no longer takes the
	// type, or its condition is false.
	VerdictNoRoute Verdict = "no_route"
	// VerdictNewRoute: a route takes the event today that did not when it came.
	VerdictNewRoute Verdict = "new_route"
	// VerdictCannotRender: the request cannot be made (the body is gone, a mapping fails).
	VerdictCannotRender Verdict = "cannot_render"
)

// Verdicts are all of them.
func Verdicts() []Verdict {
	return []Verdict{
		VerdictSame, VerdictDone, VerdictOtherTarget, VerdictOtherBody, VerdictOtherKey, VerdictNoRoute, VerdictNewRoute, VerdictCannotRender,
	}
}

// RecordedEvent is an event with its effects as they stand, read for a plan.
type RecordedEvent struct {
	Event    inbox.ClaimedEvent
	SourceID int32
	Source   string

	// Offset and Length are the event's bytes in Delivery, the whole body as it
	// came; nil if it is gone.
	Delivery       []byte
	Offset, Length int
	Item           int

	// NewKey: the plan asks for new idempotency keys, under which everything is
	// rendered anew.
	NewKey bool

	// EffectsSince is since when no effect of the source was pruned; zero if that is not
	// known. DeadLetter: the event was recorded without effects, as unusable or beyond
	// retention.
	EffectsSince time.Time
	DeadLetter   bool

	// Discarded: an operator discarded the event, which has no effects.
	Discarded bool

	// IncludeDiscarded: the plan takes in what an operator discarded.
	IncludeDiscarded bool

	// ForgetUnknown: the plan takes in what may have happened, and a run forgets since
	// when that is so.
	ForgetUnknown bool

	// Effects are all that the event has, in whatever state.
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
	Reason       inbox.Reason
	Version      int
	Key          string
	KeyHash      []byte

	// Attempts counts those made under Version.
	Attempts int

	// UnknownSince is when the first attempt began whose outcome at an idempotent
	// target is not known; zero if there was none.
	UnknownSince time.Time

	// Lost: what was stored before the first send is sealed and cannot be opened here.
	// MissingKey is the key it would need; 0 if it is damaged.
	Lost       bool
	MissingKey int32

	// Rendered is what was stored before the first send; nil if nothing was sent or
	// the body was sent as received. A replay under the effect's own key sends these
	// bytes again: one key, one body.
	Rendered []byte

	// Applied is how far the effect's sequence has come; empty if it has none.
	SequenceKeyHash []byte
	SequenceNumber  string
	Applied         string

	LastCode   string
	FinishedAt time.Time

	// Result is what was kept of the target's reply, where an audit asks for results; nil if nothing was, or if it
	// cannot be opened here.
	Result []byte
}

// Judgement is what would become of one effect today. Effect is zero for a route
// that is new to the event.
type Judgement struct {
	Effect  inbox.ID
	RouteID int32
	Verdict Verdict

	// Ordered: the route is new to the event and ordered, so that an effect made now
	// would have no place in its sequence.
	Ordered bool

	// Diff is a [Diff] as JSON: what was recorded against what would be done, with
	// redacted fields masked. It is sealed before it is stored.
	Diff json.RawMessage
}

// Judge compares a recorded event with what today's configuration would make of
// it: id, type and sequence extracted again, the signature verified with today's
// secrets (as information), the routes matched and the requests rendered anew. It
// performs no effect and writes nothing. It answers for every effect of r, and
// for every route that would take the event and has no effect of it.
//
// A verdict says what a replay then does. [VerdictNoRoute] and
// [VerdictCannotRender] leave the effect as it is, under [VerdictDone] nothing is
// sent; under the others a request leaves, as the diff describes it. It is declared here, by its caller; the
// wiring implements it, since it alone knows providers, routes and targets.
type Judge interface {
	Judge(ctx context.Context, r *RecordedEvent) ([]Judgement, error)
}
