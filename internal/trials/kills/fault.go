package kills

import "github.com/oncegate/oncegate/internal/trials/rig"

// how is what happens to a worker, or to what it is connected to.
type how string

const (
	killUnread     how = "kill before the request is read"
	killRead       how = "kill when the request was read"
	killAnswer     how = "kill in the middle of the answer"
	killBeforeSend how = "kill before the send"
	killAfterSend  how = "kill after the answer"
	stopRead       how = "stop for longer than the lease"
	connUnread     how = "reset before the request is read"
	connRead       how = "reset when the request was read"
	connReused     how = "reset a connection kept alive"
	cutBefore      how = "cut off before COMMIT"
	cutAfter       how = "cut off after COMMIT"
	busyAfter      how = "503 after the work was done"
	cutStart       how = "cut off when the start of a send is recorded"
	cutStarted     how = "cut off when the start of a send was recorded"
	skewClocks     how = "a worker's clock 2 h ahead, the receiver's 10 min behind"
	wrongDatabase  how = "the database's clock 10 min ahead of the receiver's and the senders'"
)

// step is one cycle.
type step struct {
	route Route
	how   how
}

// String is the step in words.
func (s step) String() string { return string(s.route) + ": " + string(s.how) }

// steps are taken in turn, in an order drawn anew each time round.
var steps = []step{
	{Idempotent, killUnread},
	{Idempotent, killRead},
	{Idempotent, killAnswer},
	{Idempotent, killBeforeSend},
	{Idempotent, killAfterSend},
	{Idempotent, stopRead},
	{Idempotent, connRead},
	{Idempotent, connReused},
	{Once, killUnread},
	{Once, killRead},
	{Once, killAnswer},
	{Once, killBeforeSend},
	{Once, killAfterSend},
	{Once, stopRead},
	{Once, connUnread},
	{Once, connRead},
	{Mail, killRead},
	{Table, killRead},
	{Table, cutBefore},
	{Table, cutAfter},
	{Once, skewClocks},
	{Idempotent, wrongDatabase},
	{Idempotent, busyAfter},
	{Once, busyAfter},
	{Once, cutStart},
	{Once, cutStarted},
}

// Wrong is a way to break the promise on purpose, to see whether it is noticed.
type Wrong string

// The ways.
const (
	// SettleFirst says that it is done and sends then.
	SettleFirst Wrong = "settle before the send"
	// RetryOnce takes a target that cannot deduplicate for one that can.
	RetryOnce Wrong = "retry where nobody deduplicates"
	// RetryBusy takes a 503 for an answer that precedes the work.
	RetryBusy Wrong = "retry a 503 where nobody deduplicates"
	// FreshKeys makes a key for each attempt.
	FreshKeys Wrong = "a key an attempt"
	// OtherBytes sends other bytes in each attempt.
	OtherBytes Wrong = "other bytes an attempt"
	// HiddenResend lets the transport send again by itself.
	HiddenResend Wrong = "the transport sends again"
	// Guess takes an answer that did not come for a success.
	Guess Wrong = "no answer is a success"
)

// Noticed is how the check is to notice each of them.
var Noticed = map[Wrong]rig.Kind{
	SettleFirst: Lost, RetryOnce: Doubled, RetryBusy: Doubled, FreshKeys: Doubled, OtherBytes: Altered, HiddenResend: Resent, Guess: Misstated,
}

// steps are those at which it shows.
func (w Wrong) steps() []step {
	switch w {
	case "":
		return steps
	case SettleFirst:
		return []step{{Idempotent, killUnread}}
	case RetryOnce:
		return []step{{Once, killRead}}
	case RetryBusy:
		return []step{{Once, busyAfter}}
	case FreshKeys, OtherBytes:
		return []step{{Idempotent, killRead}}
	case HiddenResend:
		return []step{{Idempotent, connReused}}
	case Guess:
		return []step{{Once, connRead}}
	}
	return nil
}

// failpoint is what the binary is told to be wrong in.
func (w Wrong) failpoint() string {
	switch w {
	case SettleFirst:
		return "work-settle-first:1"
	case FreshKeys:
		return "work-fresh-keys:1"
	case OtherBytes:
		return "work-other-bytes:1"
	case HiddenResend:
		return "work-hidden-resend:1"
	case Guess:
		return "work-guess:1"
	case RetryOnce, RetryBusy: // the configuration is
	}
	return ""
}
