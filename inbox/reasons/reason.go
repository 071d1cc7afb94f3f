package reasons

// Reason is why an attempt failed or an effect is at rest. It is one of a closed set, because it is a column, a
// metric's label and the basis of rearming. Stored: never change.
type Reason string

// The  Stored: never change.
const (
	// Exhausted means that the retry policy allows no further attempt.
	Exhausted Reason = "attempts_exhausted"
	// Deadline means that no attempt may begin any more: the retry policy's deadline has
	// passed.
	Deadline Reason = "deadline_passed"

	// LeaseExpired means that the worker vanished or was too slow, and its lease ended
	// before the attempt did.
	LeaseExpired Reason = "lease_expired"
	// Panic means that the handler panicked.
	Panic Reason = "panic"

	// FetchFailed means that the route's fetch got no answer, or one that says that the server has a problem. Nothing
	// was sent to the target.
	FetchFailed Reason = "fetch_failed"
	// FetchRefused means that the route's fetch got an answer that a retry would get again: a status such as 401 or 404,
	// an answer that is too long or is not JSON, or an address that `hosts` does not allow. Nothing was sent to the
	// target.
	FetchRefused Reason = "fetch_refused"

	// Resent means that a person had the effect sent again, and no attempt has begun
	// since.
	Resent Reason = "resent"

	// Saturated means that the target's concurrency limit is reached; no attempt was
	// made.
	Saturated Reason = "target_saturated"
	// Route means that no live process knows the route; no attempt was made.
	Route Reason = "route_unknown"
	// Paused means that an operator has paused the route or its target; no attempt was made.
	Paused Reason = "paused"
	// BodyGone means that the body was pruned or erased before the effect happened.
	BodyGone Reason = "body_gone"
	// ArchiveUnavailable means that the body is in the archive, and the archive does not answer or this process has none
	// configured; no attempt was made.
	ArchiveUnavailable Reason = "archive_unavailable"
	// ArchiveDamaged means that the archive's body is not the one that was recorded.
	ArchiveDamaged Reason = "archive_damaged"
	// KeyMissing means that this process lacks the key that the effect is sealed with;
	// the effect waits until some process has it.
	KeyMissing Reason = "sealed_key_missing"
	// Damaged means that the sealed content does not open with its key.
	Damaged Reason = "sealed_damaged"
	// Condition means that the route's condition (when) is false for the event.
	Condition Reason = "condition_false"
	// Suppressed means that the recipient's address is suppressed: no message was sent.
	Suppressed Reason = "suppressed"
	// Shadow means that the effect was recorded while its source was in shadow mode: it would have been carried out.
	Shadow Reason = "shadow"
	// ShadowFailed means that the effect was recorded while its source was in shadow mode, and that it would have become a dead
	// letter: no request could be made of the event. The reason of its attempt says why.
	ShadowFailed Reason = "shadow_failed"
	// Discarded means that a person discarded the effect.
	Discarded Reason = "discarded"
	// Cancelled means that a person cancelled the list to which the effect belongs, before it was carried out.
	Cancelled Reason = "list_cancelled"
	// Breaker means that a breaker is open, either the target's or the one of the server that the route fetches from. No
	// attempt was made.
	Breaker Reason = "target_open"
	// Rate means that the target's rate is reached, or the target or the server that the route's fetch asks has asked
	// for a pause; no attempt was made.
	Rate Reason = "target_rate"

	// KeyWindow means that an idempotent target may have forgotten the key of an attempt
	// whose outcome is unknown.
	KeyWindow Reason = "key_window_passed"

	// Elsewhere means that an attempt may have happened at another target than the one
	// the route has now, where its key is unknown.
	Elsewhere Reason = "sent_elsewhere"

	// Restored means that the effect may have happened after the last commit that the database still has,
	// because the database was restored or lost its last commits in a failover.
	Restored Reason = "restored"

	// ParentDone means that an earlier call of the same operation, whose call this one
	// resumes, has done what the effect was to do.
	ParentDone Reason = "parent_done"
	// ParentPartial means that an earlier call, whose call this one resumes, has done a part of the list, and today's
	// configuration makes another list of the call; discard this effect, and replay the items that are dead in the earlier call.
	ParentPartial Reason = "parent_partial"
	// ParentOpen means that an earlier call, whose call this one resumes, may have done what
	// the effect is to do; it waits until that is known.
	ParentOpen Reason = "parent_open"

	// ParentGone means that it is no longer known whether an earlier call, whose call this one resumes, has done
	// what the effect was to do: its effect is pruned, or a person ended it without knowing. A person decides.
	ParentGone Reason = "parent_gone"

	// Pruned means that an operator had the effect pruned before it was settled.
	Pruned Reason = "pruned"

	// Moved means that the database to which the source moved carries the effect out.
	Moved Reason = "moved"

	// NoKey means that the event has no sequence key, and the route requires one
	// (no_key).
	NoKey Reason = "sequence_key_missing"
	// NoNumber means that the event has no sequence number, and the route requires one
	// (no_number).
	NoNumber Reason = "sequence_number_missing"
	// Tie means that another effect of the stream has the same sequence number (ties).
	Tie Reason = "sequence_number_taken"
	// Ahead means that the number is a time more than a day ahead of the receipt; the
	// effect has no place in its stream, and waits for a person.
	Ahead Reason = "sequence_time_ahead"
	// Late means that the number arrived after it had been abandoned (late).
	Late Reason = "sequence_late"
	// Gap means that a sequence number before this one is missing.
	Gap Reason = "sequence_gap"

	// ListOpen means that the effect became a list, and some of its items are not
	// settled yet.
	ListOpen Reason = "list_open"
	// ListItem means that the effect became a list, and one of its items is dead or
	// indeterminate.
	ListItem Reason = "list_item_failed"
	// ListOrder means that the effect became a list on a route of mode latest, in which
	// a list has no place.
	ListOrder Reason = "list_without_order"

	// Type means that the route does not take the type of the event; the effect only fills the place of its
	// number.
	Type Reason = "type_filtered"

	// Other means that the target gave a reason outside this set.
	Other Reason = "other"
)

// Known says whether a new attempt may end otherwise, because the target may have been repaired since. It also defines
// the closed set.
func (r Reason) Known() (retriable, ok bool) {
	switch r {
	case Status410, BodyGone, Render, Condition, Discarded, Cancelled, KeyWindow, Elsewhere, Restored, Mail5xx, Pruned,
		NoKey, NoNumber, Tie, Ahead, Late, Type, ListOrder, Suppressed, Shadow, ShadowFailed, ParentDone, ParentPartial, ParentGone, Moved:
		return false, true
	case KeyMissing, Damaged, ArchiveUnavailable, ArchiveDamaged, Exhausted, Deadline, Resent, LeaseExpired, Stopped, Panic, Saturated, Route, Paused,
		Address, DNS, Connect, TLS, Timeout, Connection, Reply,
		Informational, Redirect, Status408, Status409, Status425, Status429,
		Status4xx, Status503, Status5xx, Mapping, Breaker, Rate, Mail4xx,
		Serialization, Deadlock, LockTimeout, SQLTimeout, Unavailable, SQL,
		Unroutable, TooLarge, BrokerRefused, Handler, FetchFailed, FetchRefused, Gap, ListOpen, ListItem, ParentOpen, Other:
		return true, true
	}
	return false, false
}

// Retriable reports whether a redelivery may give a dead effect with this reason new attempts.
func (r Reason) Retriable() bool {
	retriable, _ := r.Known()
	return retriable
}

// IsShadow reports whether the effect was only evaluated, in shadow mode.
func (r Reason) IsShadow() bool { return r == Shadow || r == ShadowFailed }

// ForPerson reports whether an effect that is held for the reason waits until a person decides.
func (r Reason) ForPerson() bool {
	return r == NoKey || r == NoNumber || r == Tie || r == Ahead
}

// Of converts a kind's reason. A reason outside the set becomes [Other], so that no target can choose what
// we store.
func Of(s string) Reason {
	if _, ok := Reason(s).Known(); ok {
		return Reason(s)
	}
	return Other
}
