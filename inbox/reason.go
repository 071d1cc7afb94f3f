package inbox

// Reason is why an attempt failed or an effect is at rest: one of a closed set,
// since it is a column, a metric's label and what re-arm decides by. Stored:
// never change.
type Reason string

// The reasons. Stored: never change.
const (
	// The retry policy gave up.
	ReasonExhausted Reason = "attempts_exhausted"
	ReasonDeadline  Reason = "deadline_passed"

	// The run did not end.
	ReasonLeaseExpired Reason = "lease_expired"
	ReasonStopped      Reason = "stopped"
	ReasonPanic        Reason = "panic"

	// A person had it sent again, and no attempt has been made since. The next one
	// says so in its trigger.
	ReasonResent Reason = "resent"

	// Nothing was attempted.
	ReasonSaturated Reason = "target_saturated"
	ReasonRoute     Reason = "route_unknown"
	ReasonBodyGone  Reason = "body_gone"
	// ReasonKeyMissing: this process lacks the key that the effect is sealed with. The
	// effect waits until some process has it.
	ReasonKeyMissing Reason = "sealed_key_missing"
	// ReasonDamaged: what is sealed does not open with its key.
	ReasonDamaged Reason = "sealed_damaged"
	// ReasonSealed stands in rows of earlier versions, which let such effects die.
	ReasonSealed    Reason = "sealed_key_lost"
	ReasonRender    Reason = "render_failed"
	ReasonMapping   Reason = "mapping_failed"
	ReasonCondition Reason = "condition_false"
	ReasonDiscarded Reason = "discarded"
	ReasonBreaker   Reason = "target_open"
	ReasonRate      Reason = "target_rate"

	// An idempotent target no longer remembers the key of an attempt whose outcome
	// is not known.
	ReasonKeyWindow Reason = "key_window_passed"

	// An attempt may have happened at another target than this process has for the route:
	// no key would help at this one.
	ReasonElsewhere Reason = "sent_elsewhere"

	// The network.
	ReasonAddress    Reason = "address_refused"
	ReasonDNS        Reason = "dns"
	ReasonConnect    Reason = "connect"
	ReasonTLS        Reason = "tls"
	ReasonTimeout    Reason = "timeout"
	ReasonConnection Reason = "connection_lost"
	ReasonReply      Reason = "reply_malformed"

	// The target's answer.
	ReasonInformational Reason = "status_1xx"
	ReasonRedirect      Reason = "status_3xx"
	ReasonStatus408     Reason = "status_408"
	ReasonStatus409     Reason = "status_409"
	ReasonStatus410     Reason = "status_410"
	ReasonStatus425     Reason = "status_425"
	ReasonStatus429     Reason = "status_429"
	ReasonStatus4xx     Reason = "status_4xx"
	ReasonStatus503     Reason = "status_503"
	ReasonStatus5xx     Reason = "status_5xx"

	// A mail server's answer.
	ReasonMail4xx Reason = "smtp_4xx"
	ReasonMail5xx Reason = "smtp_5xx"

	// The database, for effects inside it.
	ReasonSerialization Reason = "sql_serialization"
	ReasonDeadlock      Reason = "sql_deadlock"
	ReasonLockTimeout   Reason = "sql_lock_timeout"
	ReasonSQLTimeout    Reason = "sql_timeout"
	ReasonUnavailable   Reason = "sql_unavailable"
	ReasonSQL           Reason = "sql_error"

	// An operator had it pruned, though it was at rest or held.
	ReasonPruned Reason = "pruned"

	// A handler's own.
	ReasonHandler Reason = "handler"

	// The order of a sequence key.
	ReasonNoKey    Reason = "sequence_key_missing"
	ReasonNoNumber Reason = "sequence_number_missing"
	ReasonTie      Reason = "sequence_number_taken"
	ReasonLate     Reason = "sequence_late"
	ReasonGap      Reason = "sequence_gap"

	// A list in an ordered route: some of its items are not settled yet; one of them
	// is dead or indeterminate; in mode latest a list has no place.
	ReasonListOpen  Reason = "list_open"
	ReasonListItem  Reason = "list_item_failed"
	ReasonListOrder Reason = "list_without_order"

	// ReasonType: the route does not take the event's type; the effect only left its
	// number behind.
	ReasonType Reason = "type_filtered"

	// ReasonOther is what a kind said that is not in the set.
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
