package kills

import (
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// faultKind is what happens to a worker or to its connections.
type faultKind string

const (
	killUnread          faultKind = "kill before the request is read"
	killRead            faultKind = "kill when the request was read"
	killAnswer          faultKind = "kill in the middle of the answer"
	killBeforeSend      faultKind = "kill before the send"
	killAfterSend       faultKind = "kill after the answer"
	pauseRead           faultKind = "stop for longer than the lease"
	resetUnreadRequest  faultKind = "reset before the request is read"
	resetReadRequest    faultKind = "reset when the request was read"
	resetKeptConnection faultKind = "reset a connection kept alive"
	cutBefore           faultKind = "cut off before COMMIT"
	cutAfter            faultKind = "cut off after COMMIT"
	answerBusyAfter     faultKind = "503 after the work was done"
	cutBeforeSendStart  faultKind = "cut off when the start of a send is recorded"
	cutAfterSendStart   faultKind = "cut off when the start of a send was recorded"
	clocksApart         faultKind = "a worker's clock 2 h ahead, the receiver's 10 min behind"
	wrongDatabase       faultKind = "the database's clock 10 min ahead of the receiver's and the senders'"
)

// step is one cycle: a fault on a route.
type step struct {
	route Route
	fault faultKind
}

// String is the step in words.
func (s step) String() string { return string(s.route) + ": " + string(s.fault) }

// steps are the cycles of one round. Each round has them in another random order.
var steps = []step{
	{Idempotent, killUnread},
	{Idempotent, killRead},
	{Idempotent, killAnswer},
	{Idempotent, killBeforeSend},
	{Idempotent, killAfterSend},
	{Idempotent, pauseRead},
	{Idempotent, resetReadRequest},
	{Idempotent, resetKeptConnection},
	{Once, killUnread},
	{Once, killRead},
	{Once, killAnswer},
	{Once, killBeforeSend},
	{Once, killAfterSend},
	{Once, pauseRead},
	{Once, resetUnreadRequest},
	{Once, resetReadRequest},
	{Mail, killRead},
	{Table, killRead},
	{Table, cutBefore},
	{Table, cutAfter},
	{Once, clocksApart},
	{Idempotent, wrongDatabase},
	{Idempotent, answerBusyAfter},
	{Once, answerBusyAfter},
	{Once, cutBeforeSendStart},
	{Once, cutAfterSendStart},
}

// Defect is a planted defect. The check has to notice it.
type Defect string

// The defects.
const (
	// SettleFirst records that an effect is done before it is sent.
	SettleFirst Defect = "settle before the send"
	// RetryOnce treats a target that cannot deduplicate as one that can.
	RetryOnce Defect = "retry where nobody deduplicates"
	// RetryBusy treats a 503 as an answer that precedes the work.
	RetryBusy Defect = "retry a 503 where nobody deduplicates"
	// FreshKeys uses a new key for each attempt.
	FreshKeys Defect = "a key an attempt"
	// OtherBytes sends other bytes in each attempt.
	OtherBytes Defect = "other bytes an attempt"
	// HiddenResend lets the HTTP transport send again by itself.
	HiddenResend Defect = "the transport sends again"
	// Guess treats a missing answer as a success.
	Guess Defect = "no answer is a success"
)

// ExpectedKind is the kind of violation that each defect has to be noticed as.
var ExpectedKind = map[Defect]rig.Kind{
	SettleFirst: invariant.OneKey, RetryOnce: invariant.AtMostOnce, RetryBusy: invariant.AtMostOnce,
	FreshKeys: invariant.OneKey, OtherBytes: invariant.OneKey, HiddenResend: Resent, Guess: invariant.AtMostOnce,
}

// steps are the cycles at which the defect shows.
func (w Defect) steps() []step {
	switch w {
	case "":
		return steps
	case SettleFirst:
		return []step{{Idempotent, killUnread}}
	case RetryOnce:
		return []step{{Once, killRead}}
	case RetryBusy:
		return []step{{Once, answerBusyAfter}}
	case FreshKeys, OtherBytes:
		return []step{{Idempotent, killRead}}
	case HiddenResend:
		return []step{{Idempotent, resetKeptConnection}}
	case Guess:
		return []step{{Once, resetReadRequest}}
	}
	return nil
}

// failpoint is the fail point that plants the defect in the binary.
func (w Defect) failpoint() string {
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
	case RetryOnce, RetryBusy: // these are in the configuration
	}
	return ""
}
