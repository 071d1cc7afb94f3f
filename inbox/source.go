package inbox

import (
	"cmp"
	"context"
	"path"
	"time"

	"github.com/oncegate/oncegate/inbox/sequence"
)

// Source is a configured endpoint as the gate needs it. The wiring makes one
// for each source of the configuration, after [registry.Register] has given it and its
// routes their ids, and never changes it afterwards.
type Source struct {
	// ID is the row of the source table; never renumbered.
	ID   int32
	Name string

	// KeyName is the name that idempotency keys and sequence keys are made with, so that
	// a renamed source makes the same ones: [Registered.KeyName]. Empty is Name.
	KeyName string

	// Class is the retention class: the partition its bodies go to.
	Class string

	// Durability is what the commits of the source's events wait for. Empty is [DurabilityServer].
	Durability Durability

	// Tenant owns the source's events if their admission does not name a tenant. Empty means that they have none.
	Tenant string

	// Shadow says that the source is in shadow mode: the gate records its new events and their effects as shadow, and the
	// effects are evaluated and never carried out. Effects that are recorded already stay what they are.
	Shadow bool

	// Tombstone is how long the source's keys refuse duplicates. An event whose own time is longer ago is not admitted
	// as new, because it could be a duplicate whose key was deleted. 0 admits every event.
	Tombstone time.Duration

	// SequenceTimes says that the sequence numbers of the source's events are times, in
	// nanoseconds since 1970. One that is more than a day ahead of the receipt decides
	// about no order; see [reasons.Ahead].
	SequenceTimes bool

	// Strict makes a conflict (same event id, other payload) an error of the caller: operations answer 409. Providers
	// get 2xx, because no retry cures a 4xx, and providers delete subscriptions that answer 4xx.
	Strict bool

	// Rearm is how often a redelivery may give dead effects new attempts; 0 is
	// the default of 3, -1 is off.
	Rearm int

	// Canonical returns the payload's canonical form, without the fields that the provider changes between deliveries.
	// ok is false if the body has none (not JSON); the bodies are then compared byte by byte.
	Canonical func(body []byte) (canonical []byte, ok bool)

	// Differences names the JSON paths in which two bodies differ, never their
	// values, at most 20.
	Differences func(first, other []byte) []string

	// Shown returns a recorded payload, in its canonical form, as the caller of an operation may see it; ok is false if
	// it cannot. nil shows all of it.
	Shown func(canonical []byte) (shown []byte, ok bool)

	// Comparisons are how payloads of declared operations are compared, by the event's type;
	// others are compared by Canonical and Differences.
	Comparisons map[string]*Comparison

	// Labels returns the labels by which an event of the admission can be found, at most [MaxLabels]; the gate leaves
	// out further ones and those that are not [Label.Storable]. It is called once for each usable event, and must
	// neither block nor keep its arguments. nil means no labels.
	Labels func(a *Admission, event int) []Label

	Routes []Route
}

// Route says which events of a source lead to which effect.
type Route struct {
	// ID is the row of the route table; never renumbered.
	ID   int32
	Name string

	// KeyName is as in [Source].
	KeyName string

	// Version counts the changes of the route's definition; an effect stores the
	// one it was admitted under.
	Version int32

	// Types are the event types the route takes: exact, or with * for any run of
	// characters ("charge.*", "*").
	Types []string

	// Target is the name of the target in the configuration.
	Target string

	// Kind is the kind of the target: forward, sql, handler.
	Kind string

	// Order says how the effects of one sequence key wait for each other. The zero
	// Policy is unordered.
	Order sequence.Policy

	// Series are the streams that its order makes; see [RegisterOrders].
	Series Series

	// Sequence returns the sequence key and number of an event of the admission; a missing one is empty. timed says
	// that the number is a time, in nanoseconds since 1970. It is called for ordered routes only, once for each event,
	// and must neither block nor keep its arguments. If it is nil, the event's own SequenceKey and SequenceNumber are
	// used.
	Sequence func(a *Admission, event int) (key, number string, timed bool)
}

func (s *Source) FirstName() string { return cmp.Or(s.KeyName, s.Name) }
func (r *Route) FirstName() string  { return cmp.Or(r.KeyName, r.Name) }

// Matches reports whether the route takes events of the type.
func (r *Route) Matches(eventType string) bool {
	for _, pattern := range r.Types {
		if pattern == "*" || pattern == eventType {
			return true
		}
		// path.Match stops at slashes, which event types of some providers have.
		if ok, err := path.Match(slashless(pattern), slashless(eventType)); err == nil && ok {
			return true
		}
	}
	return false
}

func slashless(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == '/' {
			b[i] = 0x1f
		}
	}
	return string(b)
}

// Admission is a verified delivery on its way into the gate.
type Admission struct {
	Source *Source

	// Body is the exact bytes; the gate keeps a reference until it has answered.
	Body []byte

	// Headers are the request headers worth keeping, as JSON.
	Headers []byte

	ReceivedAt time.Time

	// Tenant is who the events belong to; empty takes the source's.
	Tenant string

	// Traceparent is the W3C trace context of the delivery; may be empty.
	Traceparent string

	// IDUnsigned: the signature does not cover the event ids.
	IDUnsigned bool

	// Emitted: the events were emitted from SQL, so no caller gets the answer. A payload that conflicts with a recorded one is
	// kept, also where Source.Strict makes a conflict the caller's error.
	Emitted bool

	// Reconciled: the events were read from the sender's list, not delivered. A list and a delivery may differ in their bytes,
	// so the key alone decides: such an admission never makes a conflict, and neither does a later delivery of its events.
	Reconciled bool

	// Buffered: the delivery was acknowledged when it went to the buffer, and is recorded now. ReceivedAt is when it arrived.
	Buffered bool

	Events []NewEvent
}

// NewEvent is one event of an admission.
type NewEvent struct {
	EventID    string
	Type       string
	OccurredAt time.Time

	// DatedAt is the time by which the event's age is judged: its own, and covered
	// by the signature; zero if there is none that can be trusted.
	DatedAt time.Time

	// Offset and Length are the event's bytes inside the body.
	Offset, Length int

	// Transmission is the sender's signed id of the transmission; empty for none. Such an event is new only if no event of its
	// source has the same transmission, even under another id.
	Transmission string

	// Unusable is why the event cannot be used; EventID is then ignored and the
	// event is recorded under [UnusableID], which is made of the hash of its bytes.
	Unusable string

	SequenceKey    string
	SequenceNumber string

	// Follows is the earlier call that this one follows, for operations; nil for none.
	Follows *Follow

	// Recent has the call of an operation recognised when it is made again under another key; nil
	// does not.
	Recent *RecentCall
}

// Outcome says what the gate made of an event.
type Outcome string

// The outcomes. They are part of the answer to a delivery: never change.
const (
	// Recorded: this delivery made the row.
	Recorded Outcome = "recorded"
	// Duplicate: the key was recorded before, with the same payload.
	Duplicate Outcome = "duplicate"
	// Conflict: the key was recorded before, with another payload; the first stays.
	Conflict Outcome = "conflict"
)

// Receipt is the gate's answer: committed, in the order of Admission.Events.
type Receipt struct {
	Items []ItemReceipt
}

// ItemReceipt is the answer for one event.
type ItemReceipt struct {
	// ID is the recorded event, also for duplicates and conflicts.
	ID      ID
	Outcome Outcome

	// Unusable: admitted, but a dead letter.
	Unusable bool

	// BeyondRetention: admitted, but a dead letter, because it is older than keys are
	// kept: whether it is new cannot be told.
	BeyondRetention bool

	// SuspectedReplay: the same bytes were recorded under another id.
	SuspectedReplay bool

	// Repeats is the event of the call with the same arguments that came a moment before under another key;
	// zero for none. Only for operations.
	Repeats ID

	// Effects is how many effects were recorded with it.
	Effects int

	// Paths are the JSON paths a conflict differs in.
	Paths []string

	// Intent is the hash of the payload that was sent, in its canonical form if it has one:
	// two calls with one hash say the same. Only for operations.
	Intent []byte

	// Original is the canonical form of the payload that was recorded, where an operation's
	// conflicts with it; OriginalGone says why it is not there. Only the credential that owns the
	// key may see it.
	Original     []byte
	OriginalGone OriginalGone
}

// OriginalGone says why a payload that was recorded cannot be shown. It is part of answers: never
// change.
type OriginalGone string

// Why a recorded payload cannot be shown.
const (
	// OriginalPruned: it is not kept any more.
	OriginalPruned OriginalGone = "pruned"
	// OriginalSealed: it is sealed with a key that this process does not have, or damaged.
	OriginalSealed OriginalGone = "sealed"
	// OriginalNotJSON: it is not JSON.
	OriginalNotJSON OriginalGone = "not_json"
	// OriginalTooLarge: its canonical form is longer than [MaxOriginal].
	OriginalTooLarge OriginalGone = "too_large"
)

// MaxOriginal is the longest recorded payload that is shown, in bytes.
const MaxOriginal = 64 << 10

// Accepter is the gate, for callers other than the receiver.
type Accepter interface {
	Accept(ctx context.Context, a *Admission) (Receipt, error)
}

// How an event was admitted. Stored: never change.
const (
	AdmissionOK              = "ok"
	AdmissionUnusable        = "unusable"
	AdmissionBeyondRetention = "beyond_retention"
	AdmissionUnrouted        = "unrouted"
)

// DetailReconciled is the detail of the admission of a usable event that [Admission.Reconciled] recorded.
// Stored: never change.
const DetailReconciled = "reconciled"

// DetailBuffered is the detail of the admission of a usable event that [Admission.Buffered] recorded.
// Stored: never change.
const DetailBuffered = "buffered"
