package inbox

import (
	"errors"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Reason is why an attempt failed or an effect is at rest. It is one of a closed set, because it is a column, a
// metric's label and the basis of re-arm. Stored: never change.
type Reason string

// The reasons. Stored: never change.
const (
	// ReasonExhausted means that the retry policy allows no further attempt.
	ReasonExhausted Reason = "attempts_exhausted"
	// ReasonDeadline means that no attempt may begin any more: the retry policy's deadline has
	// passed.
	ReasonDeadline Reason = "deadline_passed"

	// ReasonLeaseExpired means that the worker vanished or was too slow, and its lease ended
	// before the attempt did.
	ReasonLeaseExpired Reason = "lease_expired"
	// ReasonPanic means that the handler panicked.
	ReasonPanic Reason = "panic"

	// ReasonResent means that a person had the effect sent again, and no attempt has begun
	// since.
	ReasonResent Reason = "resent"

	// ReasonSaturated means that the target's concurrency limit is reached; no attempt was
	// made.
	ReasonSaturated Reason = "target_saturated"
	// ReasonRoute means that no live process knows the route; no attempt was made.
	ReasonRoute Reason = "route_unknown"
	// ReasonBodyGone means that the body was pruned or erased before the effect happened.
	ReasonBodyGone Reason = "body_gone"
	// ReasonKeyMissing means that this process lacks the key that the effect is sealed with;
	// the effect waits until some process has it.
	ReasonKeyMissing Reason = "sealed_key_missing"
	// ReasonDamaged means that the sealed content does not open with its key.
	ReasonDamaged Reason = "sealed_damaged"
	// ReasonCondition means that the route's condition (when) is false for the event.
	ReasonCondition Reason = "condition_false"
	// ReasonSuppressed means that the recipient's address is suppressed: no message was sent.
	ReasonSuppressed Reason = "suppressed"
	// ReasonDiscarded means that a person discarded the effect.
	ReasonDiscarded Reason = "discarded"
	// ReasonBreaker means that the target's breaker is open; no attempt was made.
	ReasonBreaker Reason = "target_open"
	// ReasonRate means that the target's rate is reached; no attempt was made.
	ReasonRate Reason = "target_rate"

	// ReasonKeyWindow means that an idempotent target may have forgotten the key of an attempt
	// whose outcome is unknown.
	ReasonKeyWindow Reason = "key_window_passed"

	// ReasonElsewhere means that an attempt may have happened at another target than the one
	// the route has now, where its key is unknown.
	ReasonElsewhere Reason = "sent_elsewhere"

	// ReasonRestored means that the effect may have happened after the last commit that the database still has,
	// because the database was restored or lost its last commits in a failover.
	ReasonRestored Reason = "restored"

	// ReasonParentDone means that an earlier call of the same operation, whose call this one
	// resumes, has done what the effect was to do.
	ReasonParentDone Reason = "parent_done"
	// ReasonParentPartial means that an earlier call, whose call this one resumes, has done a part of the
	// list, and that today's configuration makes another list of the call; replay the items that are dead there.
	ReasonParentPartial Reason = "parent_partial"
	// ReasonParentOpen means that an earlier call, whose call this one resumes, may have done what
	// the effect is to do; it waits until that is known.
	ReasonParentOpen Reason = "parent_open"

	// ReasonParentGone means that it is no longer known whether an earlier call, whose call this one resumes, has done
	// what the effect was to do: its effect is pruned, or a person ended it without knowing. A person decides.
	ReasonParentGone Reason = "parent_gone"

	// ReasonPruned means that an operator had the effect pruned before it was settled.
	ReasonPruned Reason = "pruned"

	// ReasonNoKey means that the event has no sequence key, and the route requires one
	// (no_key).
	ReasonNoKey Reason = "sequence_key_missing"
	// ReasonNoNumber means that the event has no sequence number, and the route requires one
	// (no_number).
	ReasonNoNumber Reason = "sequence_number_missing"
	// ReasonTie means that another effect of the stream has the same sequence number (ties).
	ReasonTie Reason = "sequence_number_taken"
	// ReasonAhead means that the number is a time more than a day ahead of the receipt; the
	// effect has no place in its stream, and waits for a person.
	ReasonAhead Reason = "sequence_time_ahead"
	// ReasonLate means that the number arrived after it had been abandoned (late).
	ReasonLate Reason = "sequence_late"
	// ReasonGap means that a sequence number before this one is missing.
	ReasonGap Reason = "sequence_gap"

	// ReasonListOpen means that the effect became a list, and some of its items are not
	// settled yet.
	ReasonListOpen Reason = "list_open"
	// ReasonListItem means that the effect became a list, and one of its items is dead or
	// indeterminate.
	ReasonListItem Reason = "list_item_failed"
	// ReasonListOrder means that the effect became a list on a route of mode latest, in which
	// a list has no place.
	ReasonListOrder Reason = "list_without_order"

	// ReasonType means that the route does not take the type of the event; the effect only fills the place of its
	// number.
	ReasonType Reason = "type_filtered"

	// ReasonOther means that the target gave a reason outside this set.
	ReasonOther Reason = "other"
)

// Known says whether a new attempt may end otherwise, because the target may have been repaired since. It also defines
// the closed set.
func (r Reason) Known() (retriable, ok bool) {
	switch r {
	case reasons.Status410, ReasonBodyGone, reasons.Render, ReasonCondition, ReasonDiscarded, ReasonKeyWindow, ReasonElsewhere, ReasonRestored, reasons.Mail5xx, ReasonPruned,
		ReasonNoKey, ReasonNoNumber, ReasonTie, ReasonAhead, ReasonLate, ReasonType, ReasonListOrder, ReasonSuppressed, ReasonParentDone, ReasonParentPartial, ReasonParentGone:
		return false, true
	case ReasonKeyMissing, ReasonDamaged, ReasonExhausted, ReasonDeadline, ReasonResent, ReasonLeaseExpired, reasons.Stopped, ReasonPanic, ReasonSaturated, ReasonRoute,
		reasons.Address, reasons.DNS, reasons.Connect, reasons.TLS, reasons.Timeout, reasons.Connection, reasons.Reply,
		reasons.Informational, reasons.Redirect, reasons.Status408, reasons.Status409, reasons.Status425, reasons.Status429,
		reasons.Status4xx, reasons.Status503, reasons.Status5xx, reasons.Mapping, ReasonBreaker, ReasonRate, reasons.Mail4xx,
		reasons.Serialization, reasons.Deadlock, reasons.LockTimeout, reasons.SQLTimeout, reasons.Unavailable, reasons.SQL,
		reasons.Handler, ReasonGap, ReasonListOpen, ReasonListItem, ReasonParentOpen, ReasonOther:
		return true, true
	}
	return false, false
}

// Retriable reports whether re-arm may give a dead effect with this reason new attempts.
func (r Reason) Retriable() bool {
	retriable, _ := r.Known()
	return retriable
}

// ReasonOf converts a kind's reason. A reason outside the set becomes [ReasonOther], so that no target can choose what
// we store.
func ReasonOf(s string) Reason {
	if _, ok := Reason(s).Known(); ok {
		return Reason(s)
	}
	return ReasonOther
}

// UnopenedReason says why sealed content cannot be opened: this process lacks the key, which another one may have, or
// no key opens the content.
func UnopenedReason(err error) (why Reason, missing int32) {
	if lost, ok := errors.AsType[*seal.LostError](err); ok {
		return ReasonKeyMissing, lost.Key
	}
	return ReasonDamaged, 0
}
