package receiver

import (
	"github.com/oncegate/oncegate/providers"
)

// answerCaller answers the call of an operation that has no result: with an acknowledgement, or
// with a problem document. [answer] answers senders of providers.
func answerCaller(source *endpoint, res *result) providers.Reply {
	switch res.outcome {
	case outcomeRecorded, outcomeDuplicate, outcomeUnusable, outcomeBeyondRetention:
		return acknowledgeCaller(source, res)
	case outcomeEmpty:
		return source.Provider.Answer(providers.Accepted, "", string(outcomeEmpty))
	case outcomeHandshake:
		return res.reply
	default:
	}
	code, told := res.problemCode(), res.problem
	if told.event.IsZero() {
		told.event = res.event
	}
	if !told.event.IsZero() && told.location == "" {
		told.location = source.location(told.event)
	}
	if !told.event.IsZero() && told.expiresAt == "" {
		told.expiresAt = source.expires(told.event)
	}
	switch code {
	case CodeUnauthorized:
		// A caller without a credential learns nothing. The provider chooses the status.
		return problemReply(code, &problem{status: source.Provider.Answer(providers.Refused, "", "").Status})
	case CodePayloadDiffers:
		if told.paths == nil {
			told.paths = []string{}
		}
	case CodeMethodNotAllowed:
		reply := problemReply(code, &told)
		reply.Header = withHeader(reply.Header, "Allow", source.allow)
		return reply
	default:
	}
	return problemReply(code, &told)
}

// problemCode returns the chosen code, or the one that follows from the outcome and the reason.
func (res *result) problemCode() Code {
	switch {
	case res.code != "":
		return res.code
	case res.outcome == outcomeRefused:
		return codeOf(res.reason)
	case res.outcome == outcomeConflict:
		return CodePayloadDiffers
	case res.outcome == outcomeInFlight:
		return CodeInFlight
	case res.outcome == outcomeOverloaded, res.outcome == outcomeShed:
		return CodeOverloaded
	case res.outcome == outcomePaused:
		return CodePaused
	}
	return CodeUnavailable
}

// withKnown adds the facts that were known of the call before it ended.
func (p *problem) withKnown(known *problem) {
	if p.eventID == "" {
		p.eventID = known.eventID
	}
	if p.operation == "" {
		p.operation = known.operation
	}
	if p.intentHash == nil {
		p.intentHash = known.intentHash
	}
}
