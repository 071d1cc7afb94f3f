package inbox

import "time"

// EffectState is where an effect stands. Stored: never change.
type EffectState string

// The states. Stored: never change.
const (
	// EffectPending: admitted, or given fresh attempts; nobody has it.
	EffectPending EffectState = "pending"
	// EffectClaimed: a worker has it, until its lease ends.
	EffectClaimed EffectState = "claimed"
	// EffectRetry: an attempt failed, the next one is due at next_at.
	EffectRetry EffectState = "retry"
	// EffectHeld: it waits behind its predecessor in a sequence.
	EffectHeld EffectState = "held"
	// EffectDone: it happened.
	EffectDone EffectState = "done"
	// EffectDead: it did not happen and will not by itself. At a target that
	// deduplicates it may have, where an attempt's outcome is unknown and the
	// retry policy gave up: the same key can be sent again without harm, so it
	// stays a dead letter and needs no decision; once the target may have forgotten
	// the key, it becomes indeterminate.
	EffectDead EffectState = "dead"
	// EffectIndeterminate: it may have happened; a person or a probe decides.
	EffectIndeterminate EffectState = "indeterminate"
	// EffectSuperseded: a newer version of the same sequence key was applied.
	EffectSuperseded EffectState = "superseded"
	// EffectSkipped: a condition was false, or an operator discarded it.
	EffectSkipped EffectState = "skipped"
	// EffectDuplicate: another effect owns its key, and has done or will do it.
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

// AtRest reports whether the effect waits for a person, a probe, re-arm or replay.
func (s EffectState) AtRest() bool { return s == EffectDead || s == EffectIndeterminate }

// Waiting reports whether a wake-up would claim the effect once it is due.
func (s EffectState) Waiting() bool { return s == EffectPending || s == EffectRetry }

// AttemptOutcome is what one attempt came to, as its row says. Stored: never change.
type AttemptOutcome string

// The outcomes of an attempt. Stored: never change.
const (
	AttemptDone          AttemptOutcome = "done"
	AttemptRetry         AttemptOutcome = "retry"
	AttemptDead          AttemptOutcome = "dead"
	AttemptIndeterminate AttemptOutcome = "indeterminate"
	AttemptSkipped       AttemptOutcome = "skipped"
	// AttemptLost: its end was not seen; the sweeper wrote the row.
	AttemptLost AttemptOutcome = "lost"
)

// Trigger is why an attempt was made. Stored: never change.
type Trigger string

// The triggers. Stored: never change.
const (
	TriggerInitial   Trigger = "initial"
	TriggerAutomatic Trigger = "automatic"
	TriggerRearm     Trigger = "rearm"
	// TriggerReplay: the first attempt of a replay.
	TriggerReplay Trigger = "replay"
	// TriggerManual: a person had it sent again.
	TriggerManual Trigger = "manual"
	// TriggerSweep: the run before did not end, the sweeper woke this one.
	TriggerSweep Trigger = "sweep"
)

// Standing is where an effect stands, as a worker needs to know it.
type Standing struct {
	// Found is false if there is no such effect (pruned, or a stray job).
	Found   bool
	State   EffectState
	RouteID int32

	// JobID is the job that is to wake it.
	JobID int64

	// Wait is how long until it is due, by the database's clock; not positive if
	// it is due, and meaningless unless State is waiting.
	Wait time.Duration

	// Age is how long ago the event was received, or the effect given fresh attempts,
	// by the database's clock. Only a claim that was not obtained tells it.
	Age time.Duration

	// Unfinished: an earlier run's end was not seen.
	Unfinished bool

	// Locked is for how long to stay away from the effect, because somebody else has
	// locked its stream: nothing is known of its turn. 0 if nobody has.
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

	// Since is when the event was received, or the effect given fresh attempts: the
	// retry policy's deadline counts from it.
	Since time.Time

	// Key is the idempotency key, the same in every attempt.
	Key string

	// Item counts from 0: a mapping that gives a list makes further items of the
	// effect that admission wrote.
	Item int

	// KeyHash is the key by recipe as it was stored; nil if none was made yet.
	KeyHash []byte

	// UnknownSince is when the first attempt began whose outcome at an idempotent
	// target is not known; zero if there was none.
	UnknownSince time.Time

	// unknownLease is the token of the claim of that attempt; zero if it is not known.
	unknownLease ID

	// Rendered is what was stored before the first send; nil if nothing was.
	Rendered []byte

	SequenceKeyHash []byte
	SequenceNumber  string

	// Late: the order has passed its number, and the policy lets it run all the same.
	Late bool

	Event ClaimedEvent

	ahead *ahead // nil if nothing was read ahead
}

// ClaimedEvent is what a claim knows about its event.
type ClaimedEvent struct {
	ID          ID
	EventID     string
	Type        string
	OccurredAt  time.Time // zero if the provider gave none
	ReceivedAt  time.Time
	Traceparent string

	// Body is the event's own bytes, as received; nil if BodyGone.
	Body []byte

	// BodyGone: the body's retention ended before the effect was carried out.
	BodyGone bool

	// GoneReason says of a body that is gone why: its retention ended, or it, or what
	// was rendered of it, is sealed and cannot be opened here.
	GoneReason Reason

	// MissingKey is the id of the sealing key that this process lacks, where
	// GoneReason is [ReasonKeyMissing].
	MissingKey int32

	// Headers are the headers kept of the delivery, as JSON.
	Headers []byte
}
