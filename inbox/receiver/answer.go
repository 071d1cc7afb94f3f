package receiver

import (
	"net/http"
	"strconv"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/providers"
)

// outcome is the outcome of a request. It is a metric label: the set is closed.
type outcome string

const (
	// outcomeRecorded means that the event is new and committed.
	outcomeRecorded outcome = "recorded"
	// outcomeDuplicate means that the event was recorded before.
	outcomeDuplicate outcome = "duplicate"
	// outcomeConflict means that the event was recorded before with another payload, which is
	// kept as a conflict.
	outcomeConflict outcome = "conflict"
	// outcomeUnusable means that the delivery verified but cannot be used; it is recorded as a
	// dead letter.
	outcomeUnusable outcome = "unusable"
	// outcomeBeyondRetention means that the event says that it is older than keys are kept; it
	// is recorded as a dead letter.
	outcomeBeyondRetention outcome = "beyond_retention"
	// outcomeBuffered means that the buffer keeps the delivery until the gate can record it.
	outcomeBuffered outcome = "buffered"
	// outcomeEmpty means that the delivery verified and carries no event.
	outcomeEmpty outcome = "empty"
	// outcomeHandshake means that the sender tested or registered the endpoint.
	outcomeHandshake outcome = "handshake"
	// outcomeInFlight means that an operation was repeated before its effects were at rest.
	outcomeInFlight outcome = "in_flight"
	// outcomeStatus means that a caller asked how an operation ended, or what it may call.
	outcomeStatus outcome = "status"
	// outcomeSession means that a caller opened a session for an agent, or ended one.
	outcomeSession outcome = "session"
	// outcomeRefused means that the delivery was refused; the causes are listed below.
	outcomeRefused outcome = "refused"
	// outcomeOverloaded means that there was no room for the delivery, in the memory for
	// bodies or in the gate (503).
	outcomeOverloaded outcome = "overloaded"
	// outcomeShed means that the body arrived so slowly that others needed its memory first
	// (503).
	outcomeShed outcome = "shed"
	// outcomeUnavailable means that a fault of ours kept the delivery from being recorded
	// (503).
	outcomeUnavailable outcome = "unavailable"
	// outcomeDoubted means that only the time of the delivery is wrong, and our own clock may
	// be (503).
	outcomeDoubted outcome = "clock_doubted"
	// outcomeKeyAwaited means that the sender's key is not known and could not be fetched for
	// now (503).
	outcomeKeyAwaited outcome = "key_awaited"
	// outcomePaused means that an operator has paused the source, so that nothing was verified or
	// recorded (503).
	outcomePaused outcome = "paused"
)

var outcomes = [...]outcome{
	outcomeRecorded, outcomeDuplicate, outcomeConflict, outcomeUnusable, outcomeBeyondRetention, outcomeBuffered, outcomeEmpty,
	outcomeInFlight, outcomeStatus, outcomeSession, outcomeHandshake, outcomeRefused, outcomeOverloaded, outcomeShed, outcomeUnavailable, outcomeDoubted,
	outcomeKeyAwaited, outcomePaused,
}

// acknowledged reports whether the answer says that the events are recorded.
func (o outcome) acknowledged() bool {
	switch o {
	case outcomeRecorded, outcomeDuplicate, outcomeConflict, outcomeUnusable, outcomeBeyondRetention:
		return true
	default:
		return false
	}
}

// unavailable reports whether the answer asks the sender to deliver again later.
func (o outcome) unavailable() bool {
	switch o {
	case outcomeOverloaded, outcomeShed, outcomeUnavailable, outcomeDoubted, outcomeKeyAwaited, outcomePaused:
		return true
	default:
		return false
	}
}

// reason says why a request was refused: the provider's reasons and these. It
// is a metric label: the set is closed.
type reason string

const (
	// reasonUnknownSource means that no source has the name in the path.
	reasonUnknownSource reason = "unknown_source"
	// reasonMethod means that the provider delivers with another method.
	reasonMethod reason = "method"
	// reasonContentType means that the provider delivers another content type.
	reasonContentType reason = "content_type"
	// reasonContentEncoding means that the content encoding is not supported.
	reasonContentEncoding reason = "content_encoding"
	// reasonTooLarge means that the body is larger than the source takes.
	reasonTooLarge reason = "too_large"
	// reasonTruncated means that the body ended early.
	reasonTruncated reason = "truncated"
	// reasonSlow means that the body arrived too slowly.
	reasonSlow reason = "slow"
	// reasonNotAllowed means that the credential may not call the operation.
	reasonNotAllowed reason = "operation_not_allowed"
	// reasonQuota means that the source, the credential or the tenant has used up its quota of new keys or of deliveries.
	reasonQuota reason = "quota"
	// reasonFollowHeader means that the headers by which an operation names an earlier call do not fit.
	reasonFollowHeader reason = "follow_header"
	// reasonParent means that an operation names a parent that is none of its credential's.
	reasonParent reason = "unknown_parent"
	// reasonParentUnsettled means that an operation follows a call whose outcome is not known yet.
	reasonParentUnsettled reason = "parent_unsettled"
	// reasonParentPruned means that an operation resumes a call of which nothing is kept that says what it did.
	reasonParentPruned reason = "parent_pruned"
	// reasonFollowed means that an operation follows a call that another one follows already.
	reasonFollowed reason = "already_followed"
	// reasonResumeDiffers means that an operation resumes a call of another operation or with another payload.
	reasonResumeDiffers reason = "resume_differs"
	// reasonUnknownOperation means that the source declares its operations, and this is none of them.
	reasonUnknownOperation reason = "unknown_operation"
	// reasonContractVersion means that the operation does not accept the contract version of the call.
	reasonContractVersion reason = "contract_version"
	// reasonSchema means that the payload does not fit the operation's JSON Schema.
	reasonSchema reason = "schema"
	// reasonIntent means that the payload has another intent hash than its caller says.
	reasonIntent reason = "intent_differs"
	// reasonSuspectedRepeat means that the same call was made a moment ago under another key.
	reasonSuspectedRepeat reason = "suspected_repeat"
	// reasonSessionExpired means that the session of the token has expired.
	reasonSessionExpired reason = "session_expired"
	// reasonSessionRevoked means that the session of the token was ended before its time, or that
	// its credential is not accepted any more.
	reasonSessionRevoked reason = "session_revoked"
	// reasonInvalidSession means that a session was asked for that cannot be opened as it was asked for.
	reasonInvalidSession reason = "invalid_session"
	// reasonUnknownEvent means that the status of an event was asked that is none of the credential's.
	reasonUnknownEvent reason = "unknown_event"
)

var reasons = [...]reason{
	reasonUnknownSource, reasonMethod, reasonContentType, reasonContentEncoding,
	reasonTooLarge, reasonTruncated, reasonSlow, reasonQuota, reasonParent, reasonUnknownEvent,
	reasonNotAllowed, reasonFollowHeader, reasonParentUnsettled, reasonParentPruned, reasonFollowed, reasonResumeDiffers, reasonUnknownOperation, reasonContractVersion, reasonSchema, reasonIntent, reasonSuspectedRepeat,
	reasonSessionExpired, reasonSessionRevoked, reasonInvalidSession,
	reason(providers.ReasonUnsigned), reason(providers.ReasonMalformed), reason(providers.ReasonMismatch),
	reason(providers.ReasonStale), reason(providers.ReasonEarly), reason(providers.ReasonUnidentified),
}

// Causes lists the causes that a refusal can have.
func Causes() []string {
	out := make([]string, len(reasons))
	for i, r := range reasons {
		out[i] = string(r)
	}
	return out
}

// result is the result of a request. The zero result is a fault of ours.
type result struct {
	outcome outcome
	reason  reason

	// status and event are the acknowledgement of a delivery; event is the first
	// of a batch.
	status inbox.Outcome
	event  inbox.ID

	// reply is the answer to a handshake. It is also the answer to a refused one if the provider requires a
	// specific answer.
	reply providers.Reply

	// single means that the delivery carried one event.
	single bool

	// code is the code in the answer to the caller of an operation if it has no result; if it is empty, the
	// code follows from the outcome and the reason.
	code Code

	// problem is the rest of the answer to a verified caller of an operation. Its retryAfter also applies to
	// senders of providers.
	problem problem

	// repeats names the call that a recorded one is suspected to repeat; empty for none.
	repeats string

	// unread means that the body was not read to its end, so the connection cannot be reused.
	unread bool
}

// How long a sender should wait before it delivers again, in seconds.
const (
	afterOverload = "1"
	afterFault    = "5"
	afterQuota    = "1"
	afterFlight   = "1"
	// afterDoubt leaves time to compare the clocks.
	afterDoubt = "2"
	// afterPause is short enough that a delivery comes soon after the operator resumes the source.
	afterPause = "60"
)

// answer decides every status that senders of providers get; [answerCaller] decides those of callers. The answer to a refusal has no body and no hint. An unknown outcome is a fault
// of ours, for which the answer asks the sender to deliver again.
func answer(source *endpoint, res *result) providers.Reply {
	switch res.outcome {
	case outcomeRecorded, outcomeDuplicate, outcomeConflict, outcomeUnusable, outcomeBeyondRetention:
		return acknowledge(source, res)
	case outcomeBuffered:
		return source.Provider.Answer(providers.Accepted, "", string(outcomeBuffered))
	case outcomeEmpty:
		return source.Provider.Answer(providers.Accepted, "", string(outcomeEmpty))
	case outcomeHandshake:
		return res.reply
	case outcomeRefused:
		return refuse(source, res)
	case outcomeOverloaded, outcomeShed:
		return bare(http.StatusServiceUnavailable, "Retry-After", afterOverload)
	case outcomeDoubted:
		return bare(http.StatusServiceUnavailable, "Retry-After", afterDoubt)
	case outcomeKeyAwaited:
		after := afterFault
		if res.problem.retryAfter > 0 {
			after = strconv.Itoa(res.problem.retryAfter)
		}
		return bare(http.StatusServiceUnavailable, "Retry-After", after)
	case outcomePaused:
		return bare(http.StatusServiceUnavailable, "Retry-After", afterPause)
	case outcomeUnavailable:
		return bare(http.StatusServiceUnavailable, "Retry-After", afterFault)
	default:
		return bare(http.StatusServiceUnavailable, "Retry-After", afterFault)
	}
}

func acknowledge(source *endpoint, res *result) providers.Reply {
	return source.Provider.Answer(providers.Accepted, res.event.String(), string(res.status))
}

func refuse(source *endpoint, res *result) providers.Reply {
	switch res.reason {
	case reasonUnknownSource:
		return bare(http.StatusNotFound, "", "")
	case reasonMethod:
		return bare(http.StatusMethodNotAllowed, "Allow", source.allow)
	case reasonContentType, reasonContentEncoding:
		return bare(http.StatusUnsupportedMediaType, "", "")
	case reasonTooLarge:
		return bare(http.StatusRequestEntityTooLarge, "", "")
	case reasonTruncated, reasonSlow:
		// The request never arrived whole, and the status says so.
		return bare(http.StatusRequestTimeout, "", "")
	case reasonQuota:
		after := afterQuota
		if res.problem.retryAfter > 0 {
			after = strconv.Itoa(res.problem.retryAfter)
		}
		return bare(http.StatusTooManyRequests, "Retry-After", after)
	default:
	}
	if res.reply.Status != 0 {
		return res.reply
	}
	return source.Provider.Answer(providers.Refused, "", "")
}

func bare(status int, name, value string) providers.Reply {
	reply := providers.Reply{Status: status}
	if name != "" {
		reply.Header = http.Header{name: {value}}
	}
	return reply
}
