package inbox

import (
	"errors"

	"github.com/oncegate/oncegate/inbox/seal"
)

// Reason is why an attempt failed or an effect is at rest: one of a closed set,
// since it is a column, a metric's label and what re-arm decides by. Stored:
// never change.
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
	// ReasonStopped means that the process stopped during the attempt.
	ReasonStopped Reason = "stopped"
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
	// ReasonSealed means that the key of the sealed content was lost. Only rows of earlier
	// versions have this reason, which let such effects die.
	ReasonSealed Reason = "sealed_key_lost"
	// ReasonRender means that the request, message or statement could not be built for the
	// event.
	ReasonRender Reason = "render_failed"
	// ReasonMapping means that an expression of the route's map or statement failed for the
	// event.
	ReasonMapping Reason = "mapping_failed"
	// ReasonCondition means that the route's condition (when) is false for the event.
	ReasonCondition Reason = "condition_false"
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

	// ReasonAddress means that the target's address is private or special, and allow does not
	// permit it.
	ReasonAddress Reason = "address_refused"
	// ReasonDNS means that the target's host name was not resolved.
	ReasonDNS Reason = "dns"
	// ReasonConnect means that the connection to the target was refused or timed out before
	// anything was sent.
	ReasonConnect Reason = "connect"
	// ReasonTLS means that the TLS handshake with the target failed.
	ReasonTLS Reason = "tls"
	// ReasonTimeout means that the target did not answer in time.
	ReasonTimeout Reason = "timeout"
	// ReasonConnection means that the connection broke after something was sent.
	ReasonConnection Reason = "connection_lost"
	// ReasonReply means that the reply of the target is malformed.
	ReasonReply Reason = "reply_malformed"

	// ReasonInformational means that the target answered with a final status 1xx.
	ReasonInformational Reason = "status_1xx"
	// ReasonRedirect means that the target answered with a redirect, which is never followed.
	ReasonRedirect Reason = "status_3xx"
	// ReasonStatus408 means that the target answered 408.
	ReasonStatus408 Reason = "status_408"
	// ReasonStatus409 means that the target answered 409.
	ReasonStatus409 Reason = "status_409"
	// ReasonStatus410 means that the target answered 410.
	ReasonStatus410 Reason = "status_410"
	// ReasonStatus425 means that the target answered 425.
	ReasonStatus425 Reason = "status_425"
	// ReasonStatus429 means that the target answered 429.
	ReasonStatus429 Reason = "status_429"
	// ReasonStatus4xx means that the target answered with another status 4xx.
	ReasonStatus4xx Reason = "status_4xx"
	// ReasonStatus503 means that the target answered 503.
	ReasonStatus503 Reason = "status_503"
	// ReasonStatus5xx means that the target answered with another status 5xx.
	ReasonStatus5xx Reason = "status_5xx"

	// ReasonMail4xx means that the mail server refused the message for now (4yz).
	ReasonMail4xx Reason = "smtp_4xx"
	// ReasonMail5xx means that the mail server refused the message for good (5yz).
	ReasonMail5xx Reason = "smtp_5xx"

	// ReasonSerialization means that the transaction could not be serialized.
	ReasonSerialization Reason = "sql_serialization"
	// ReasonDeadlock means that the transaction was the victim of a deadlock.
	ReasonDeadlock Reason = "sql_deadlock"
	// ReasonLockTimeout means that the statement waited too long for a lock.
	ReasonLockTimeout Reason = "sql_lock_timeout"
	// ReasonSQLTimeout means that the statement took too long.
	ReasonSQLTimeout Reason = "sql_timeout"
	// ReasonUnavailable means that the database or its connection was not available.
	ReasonUnavailable Reason = "sql_unavailable"
	// ReasonSQL means that the statement failed with another error.
	ReasonSQL Reason = "sql_error"

	// ReasonPruned means that an operator had the effect pruned before it was settled.
	ReasonPruned Reason = "pruned"

	// ReasonHandler means that the handler returned an error.
	ReasonHandler Reason = "handler"

	// ReasonNoKey means that the event has no sequence key, and the route requires one
	// (no_key).
	ReasonNoKey Reason = "sequence_key_missing"
	// ReasonNoNumber means that the event has no sequence number, and the route requires one
	// (no_number).
	ReasonNoNumber Reason = "sequence_number_missing"
	// ReasonTie means that another effect of the stream has the same sequence number (ties).
	ReasonTie Reason = "sequence_number_taken"
	// ReasonLate means that the number arrived after it had been given up (late).
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

	// ReasonType means that the route does not take the type of the event; the effect only
	// holds the place of its number.
	ReasonType Reason = "type_filtered"

	// ReasonOther means that the target gave a reason outside this set.
	ReasonOther Reason = "other"
)

// Known says of each reason whether a fresh attempt may end otherwise: the
// target may have been mended since. It is also the closed set.
func (r Reason) Known() (retriable, ok bool) {
	switch r {
	case ReasonStatus410, ReasonBodyGone, ReasonRender, ReasonCondition, ReasonDiscarded, ReasonKeyWindow, ReasonElsewhere, ReasonMail5xx, ReasonPruned,
		ReasonNoKey, ReasonNoNumber, ReasonTie, ReasonLate, ReasonType, ReasonListOrder:
		return false, true
	case ReasonSealed, ReasonKeyMissing, ReasonDamaged, ReasonExhausted, ReasonDeadline, ReasonResent, ReasonLeaseExpired, ReasonStopped, ReasonPanic, ReasonSaturated, ReasonRoute,
		ReasonAddress, ReasonDNS, ReasonConnect, ReasonTLS, ReasonTimeout, ReasonConnection, ReasonReply,
		ReasonInformational, ReasonRedirect, ReasonStatus408, ReasonStatus409, ReasonStatus425, ReasonStatus429,
		ReasonStatus4xx, ReasonStatus503, ReasonStatus5xx, ReasonMapping, ReasonBreaker, ReasonRate, ReasonMail4xx,
		ReasonSerialization, ReasonDeadlock, ReasonLockTimeout, ReasonSQLTimeout, ReasonUnavailable, ReasonSQL,
		ReasonHandler, ReasonGap, ReasonListOpen, ReasonListItem, ReasonOther:
		return true, true
	}
	return false, false
}

// Retriable reports whether re-arm may give a dead effect of this reason fresh
// attempts.
func (r Reason) Retriable() bool {
	retriable, _ := r.Known()
	return retriable
}

// ReasonOf takes a reason from a kind. What is not in the set becomes
// [ReasonOther], so that no target can choose what we store.
func ReasonOf(s string) Reason {
	if _, ok := Reason(s).Known(); ok {
		return Reason(s)
	}
	return ReasonOther
}

// UnopenedReason says why something cannot be opened: a key that this process lacks,
// which another one may have, or content that no key opens.
func UnopenedReason(err error) (why Reason, missing int32) {
	if lost, ok := errors.AsType[*seal.LostError](err); ok {
		return ReasonKeyMissing, lost.Key
	}
	return ReasonDamaged, 0
}
