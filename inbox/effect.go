package inbox

import (
	"time"

	"github.com/oncegate/oncegate/inbox/reasons"
)

// EffectState is the state of an effect. Stored: never change.
type EffectState string

// The states. Stored: never change.
const (
	// EffectPending means that the effect waits for an attempt: it was admitted, or was given
	// new attempts.
	EffectPending EffectState = "pending"
	// EffectClaimed means that a worker has the effect until its lease ends.
	EffectClaimed EffectState = "claimed"
	// EffectRetry means that an attempt failed, and the next one is scheduled.
	EffectRetry EffectState = "retry"
	// EffectHeld means that the effect waits for its predecessor in a stream.
	EffectHeld EffectState = "held"
	// EffectDone means that the effect happened.
	EffectDone EffectState = "done"
	// EffectDead means that the effect did not happen and will not by itself. At a target that
	// deduplicates it may have happened, if an attempt has an unknown outcome and the retry
	// policy gave up: sending the same key again does no harm, so that it needs no decision.
	// Once the target may have forgotten the key, the effect becomes indeterminate.
	EffectDead EffectState = "dead"
	// EffectIndeterminate means that the effect may have happened, and a person or a probe
	// decides.
	EffectIndeterminate EffectState = "indeterminate"
	// EffectSuperseded means that a newer version of the same sequence key was applied.
	EffectSuperseded EffectState = "superseded"
	// EffectSkipped means that the route's condition was false, that an operator discarded or
	// skipped the effect, or that it was recorded in shadow mode and is evaluated.
	EffectSkipped EffectState = "skipped"
	// EffectDuplicate means that another effect owns the effect key, and has done or will do
	// the work.
	EffectDuplicate EffectState = "duplicate"
)

// Settled reports whether nothing more will happen to the effect.
func (s EffectState) Settled() bool {
	switch s {
	case EffectDone, EffectSuperseded, EffectSkipped, EffectDuplicate:
		return true
	case EffectPending, EffectClaimed, EffectRetry, EffectHeld, EffectDead, EffectIndeterminate:
	}
	return false
}

// AtRest reports whether the effect waits for a person, a probe, a redelivery or a replay.
func (s EffectState) AtRest() bool { return s == EffectDead || s == EffectIndeterminate }

// Waiting reports whether a wake-up would claim the effect once it is due.
func (s EffectState) Waiting() bool { return s == EffectPending || s == EffectRetry }

// AttemptOutcome is the outcome of one attempt. Stored: never change.
type AttemptOutcome string

// The outcomes of an attempt. Stored: never change.
const (
	// AttemptDone means that the effect happened.
	AttemptDone AttemptOutcome = "done"
	// AttemptRetry means that the attempt failed, and another one follows.
	AttemptRetry AttemptOutcome = "retry"
	// AttemptDead means that the attempt failed, and none follows.
	AttemptDead AttemptOutcome = "dead"
	// AttemptIndeterminate means that it is unknown whether the effect happened.
	AttemptIndeterminate AttemptOutcome = "indeterminate"
	// AttemptSkipped means that the attempt found that there is nothing to do.
	AttemptSkipped AttemptOutcome = "skipped"
	// AttemptLost means that the end of the attempt was not seen; the sweeper recorded it.
	AttemptLost AttemptOutcome = "lost"
)

// Trigger is why an attempt was made. Stored: never change.
type Trigger string

// The triggers. Stored: never change.
const (
	// TriggerInitial means that it is the first attempt.
	TriggerInitial Trigger = "initial"
	// TriggerAutomatic means that the retry policy scheduled the attempt.
	TriggerAutomatic Trigger = "automatic"
	// TriggerRearm means that a redelivery gave the dead effect new attempts.
	TriggerRearm Trigger = "rearm"
	// TriggerReplay means that it is the first attempt of a replay.
	TriggerReplay Trigger = "replay"
	// TriggerManual means that a person had the effect sent again.
	TriggerManual Trigger = "manual"
	// TriggerSweep means that the attempt before did not end, and the sweeper woke this one.
	TriggerSweep Trigger = "sweep"
)

// Standing is the state of an effect, as a worker needs to know it.
type Standing struct {
	// Found is false if there is no such effect (pruned, or a stray job).
	Found   bool
	State   EffectState
	RouteID int32

	// JobID is the job that should wake it.
	JobID int64

	// Wait is how long until it is due, by the database's clock; not positive if
	// it is due, and meaningless unless State is waiting.
	Wait time.Duration

	// Age is how long ago the event was received, or the effect was given new attempts, by the database's
	// clock. It is set only if the claim was not obtained.
	Age time.Duration

	// Unfinished: an earlier run's end was not seen.
	Unfinished bool

	// Shadow: see [Claim.Shadow]. It is set only if the claim was not obtained.
	Shadow bool

	// Locked is how long to leave the effect alone, because another transaction has locked its stream and
	// its turn is therefore unknown. 0 if the stream is not locked.
	Locked time.Duration
}

// Claim is an effect that this worker has, until its lease ends: everything one
// attempt needs to know.
type Claim struct {
	Effect  ID
	RouteID int32

	// Token fences the claim: every finish asks for it.
	Token ID

	// Attempt counts from 1, within Version.
	Attempt int
	Version int
	Trigger Trigger

	// StartedAt is when it was claimed, by the database's clock.
	StartedAt time.Time

	// Since is when the event was received, or the effect given new attempts: the
	// retry policy's deadline counts from it.
	Since time.Time

	// Key is the idempotency key, the same in every attempt.
	Key string

	// Remade means that this attempt made Key from the recipe. It is stored when the effect asks for its
	// key.
	Remade bool

	// Item counts from 0: a mapping that returns a list makes further items of the effect that admission
	// wrote.
	Item int

	// KeyHash is the key by recipe as it was stored; nil if none was made yet.
	KeyHash []byte

	// UnknownSince is when the first attempt began whose outcome at an idempotent
	// target is not known; zero if there was none.
	UnknownSince time.Time

	// unknownLease is the token of the claim of that attempt; zero if it is not known.
	unknownLease ID

	// RouteVersion is the version of the route under which the effect was recorded.
	RouteVersion int

	// Rendered is what was stored before the first send; nil if nothing was.
	Rendered []byte

	// Fetched is the answer of the route's fetch that was stored for this effect, as JSON; nil if none was.
	Fetched []byte

	// ListText is the item's text in its list, for an item that nothing was rendered for.
	// A claim does not read it.
	ListText string

	SequenceKeyHash []byte
	SequenceNumber  string

	// Shadow: the effect was recorded in shadow mode. It is evaluated, and nothing of it reaches its target.
	Shadow bool

	// Late: the order has passed its number, and the policy lets it run all the same.
	Late bool

	Event ClaimedEvent

	ahead *followers // nil if nothing was read ahead
}

// ClaimedEvent is what a claim knows about its event.
type ClaimedEvent struct {
	ID          ID
	EventID     string
	Type        string
	OccurredAt  time.Time // zero if the provider gave none
	ReceivedAt  time.Time
	Traceparent string
	Tenant      string // empty if it was recorded without one

	// Parent is the event of the call that an operation follows; zero for none.
	Parent ID

	// Body is the event's own bytes, as received; nil if BodyGone.
	Body []byte

	// BodyGone: the body's retention ended before the effect was carried out.
	BodyGone bool

	// GoneReason says of a body that is gone why: its retention ended, or it, or what
	// was rendered of it, is sealed and cannot be opened here.
	GoneReason reasons.Reason

	// MissingKey is the id of the sealing key that this process lacks, where
	// GoneReason is [reasons.KeyMissing].
	MissingKey int32

	// Headers are the headers kept of the delivery, as JSON.
	Headers []byte
}
