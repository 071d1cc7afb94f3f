package receiver

import (
	"slices"

	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/providers"
)

// Code tells a program why a call of an operation got no result. Callers compare it: never
// change one.
type Code string

// The codes. [Codes] says of each what the caller should do next.
const (
	CodeUnauthorized        Code = "unauthorized"
	CodeOperationNotAllowed Code = "operation_not_allowed"
	CodeNotFound            Code = "not_found"

	CodeMissingOperation Code = Code(providers.ProblemMissingOperation)
	CodeInvalidOperation Code = Code(providers.ProblemInvalidOperation)
	CodeMissingKey       Code = Code(providers.ProblemMissingKey)
	CodeInvalidKey       Code = Code(providers.ProblemInvalidKey)
	CodeKeyNotAllowed    Code = Code(providers.ProblemKeyNotAllowed)
	CodeUnidentified     Code = "unidentified"
	CodeUnknownOperation Code = "unknown_operation"
	CodeFollowHeader     Code = "follow_header"
	CodeUnknownParent    Code = "unknown_parent"
	CodeParentUnsettled  Code = "parent_unsettled"
	CodeParentPruned     Code = "parent_pruned"
	CodeAlreadyFollowed  Code = "already_followed"
	CodeResumeDiffers    Code = "resume_differs"
	CodeContractVersion  Code = "contract_version"
	CodeSchema           Code = "schema"
	CodeIntentDiffers    Code = "intent_differs"

	CodeSessionExpired Code = "session_expired"
	CodeSessionRevoked Code = "session_revoked"
	CodeInvalidSession Code = "invalid_session"

	CodeInFlight        Code = "in_flight"
	CodePayloadDiffers  Code = "payload_differs"
	CodeSuspectedRepeat Code = "suspected_repeat"

	CodeMethodNotAllowed Code = "method_not_allowed"
	CodeContentType      Code = "content_type"
	CodeContentEncoding  Code = "content_encoding"
	CodeTooLarge         Code = "too_large"
	CodeIncomplete       Code = "incomplete"

	CodeQuota       Code = "quota"
	CodeOverloaded  Code = "overloaded"
	CodePaused      Code = "source_paused"
	CodeUnavailable Code = "unavailable"
)

// CodeMeaning is a row of the table of codes.
type CodeMeaning struct {
	Code Code

	// Status is the HTTP status of the answer.
	Status int

	// Title describes the problem in a few words. It is the same for every answer with the code.
	Title string

	// Retriable means that the same call, made again under the same key without changes, does no
	// harm and may get another answer.
	Retriable bool

	// RetryAfter is how many seconds the caller should wait before that, unless the answer
	// itself says otherwise; 0 says nothing.
	RetryAfter int

	// Next is what the caller should do next, unless the answer itself knows better.
	Next operation.Next

	// Advice says the same in sentences, for people and models.
	Advice string
}

// codes is the table. An answer must have a row here.
var codes = [...]CodeMeaning{
	{
		Code: CodeUnauthorized, Status: 401, Title: "the credential is missing or not accepted",
		Next: operation.NextStop, Advice: "Do not repeat the call unchanged. Send a valid credential, or ask the operator for one. No key was spent.",
	},
	{
		Code: CodeOperationNotAllowed, Status: 403, Title: "the credential may not call this operation",
		Next: operation.NextStop, Advice: "Do not repeat the call. Ask the operator to allow the operation to the credential, or call one that is allowed. No key was spent.",
	},
	{
		Code: CodeNotFound, Status: 404, Title: "the credential has no such operation",
		Next: operation.NextCorrect, Advice: "Use the address in the header Location of the first answer and the credential that made the call. A pruned operation is not found either.",
	},
	{
		Code: CodeMissingOperation, Status: 400, Title: "the call names no operation",
		Next: operation.NextCorrect, Advice: "Name the operation in the header that detail names, and call again. No key was spent.",
	},
	{
		Code: CodeInvalidOperation, Status: 400, Title: "the name of the operation has another form",
		Next: operation.NextCorrect, Advice: "Correct the name of the operation as detail says, and call again. No key was spent.",
	},
	{
		Code: CodeMissingKey, Status: 400, Title: "the call has no key, or lacks a part of it",
		Next: operation.NextCorrect, Advice: "Send the key or the part of it that detail names. Take it from what the call means, so that a repeated call has it too; never make a random one for each attempt. No key was spent.",
	},
	{
		Code: CodeInvalidKey, Status: 400, Title: "the key has another form",
		Next: operation.NextCorrect, Advice: "Make a key of the form that detail describes, the same one for every repetition of this call. No key was spent.",
	},
	{
		Code: CodeKeyNotAllowed, Status: 400, Title: "a call under a session carries no key",
		Next: operation.NextCorrect, Advice: "Leave the idempotency key out, and name the step in Oncegate-Step: the key is made of the session's run and of the step. No key was spent.",
	},
	{
		Code: CodeSessionExpired, Status: 401, Title: "the session has expired",
		Next: operation.NextStop, Advice: "Have the engine open another session of the same run, and repeat the same step under it: steps that are done are answered with their stored results. No key was spent.",
	},
	{
		Code: CodeSessionRevoked, Status: 401, Title: "the session was ended",
		Next: operation.NextStop, Advice: "Stop. The engine or an operator ended the session, or its credential is not accepted any more. No key was spent.",
	},
	{
		Code: CodeInvalidSession, Status: 400, Title: "the session cannot be opened with this request",
		Next: operation.NextCorrect, Advice: "Correct the member that detail names, and ask again. Asking again is safe: sessions of one run make the same keys.",
	},
	{
		Code: CodeUnidentified, Status: 400, Title: "the operation is not identified",
		Next: operation.NextCorrect, Advice: "Correct the fault that detail describes, and call again. No key was spent.",
	},
	{
		Code: CodeUnknownOperation, Status: 404, Title: "there is no such operation",
		Next: operation.NextStop, Advice: "Do not repeat the call. Call an operation that the source declares. No key was spent.",
	},
	{
		Code: CodeFollowHeader, Status: 400, Title: "the headers that name an earlier call do not fit",
		Next: operation.NextCorrect, Advice: "Name one earlier call: in Oncegate-Resumes to have done what it did not do, or in Oncegate-Instead-Of to have this call done whole in its place. No key was spent.",
	},
	{
		Code: CodeUnknownParent, Status: 400, Title: "the earlier call is not known",
		Next: operation.NextCorrect, Advice: "Name an earlier call of this credential, by its event or by its key. If it was pruned, ask the operator what it did before you call without the header. No key was spent.",
	},
	{
		Code: CodeParentUnsettled, Status: 409, Title: "the earlier call has no settled result", Retriable: true, RetryAfter: 1,
		Next: operation.NextWait, Advice: "Look at state. While it is in_flight, wait as long as Retry-After says and repeat the same call under the same key. If it is indeterminate, a person or a probe has to decide first. No key was spent.",
	},
	{
		Code: CodeParentPruned, Status: 409, Title: "nothing is kept of what the earlier call did",
		Next: operation.NextAskOperator, Advice: "Do not repeat the call: what the earlier call did could happen twice. If next is replace, nothing of it happened: name it in Oncegate-Instead-Of. Else ask the operator first whether the whole call must happen. No key was spent.",
	},
	{
		Code: CodeAlreadyFollowed, Status: 409, Title: "another call follows the earlier one already",
		Next: operation.NextWait, Advice: "Look at the call that event names: it follows the earlier one. Do with it what next says, and name it, not the earlier one, if you follow it. No key was spent.",
	},
	{
		Code: CodeResumeDiffers, Status: 422, Title: "the call says something else than the one that it resumes",
		Next: operation.NextCorrect, Advice: "Send the same operation with the same payload to resume the earlier call. To have another payload done in its place, name it in Oncegate-Instead-Of. No key was spent.",
	},
	{
		Code: CodeContractVersion, Status: 409, Title: "the version of the contract is not accepted",
		Next: operation.NextCorrect, Advice: "Do not repeat the call. It was planned for another version of the operation: read the present contract, plan again, and call with its version. No key was spent.",
	},
	{
		Code: CodeSchema, Status: 422, Title: "the payload does not fit the schema of the operation",
		Next: operation.NextCorrect, Advice: "Correct the members that paths and detail tell, and call again, under the same key. No key was spent.",
	},
	{
		Code: CodeIntentDiffers, Status: 422, Title: "the payload does not have the intent hash of the call",
		Next: operation.NextCorrect, Advice: "Do not repeat the call unchanged. Send the payload that was planned, under the same key, or leave Oncegate-Intent-Hash out if this payload is meant. intent_hash is the hash of the received payload. No key was spent.",
	},
	{
		Code: CodeInFlight, Status: 409, Title: "the operation is in flight", Retriable: true, RetryAfter: 1,
		Next: operation.NextWait, Advice: "Wait as long as Retry-After says, then repeat the same call under the same key, or ask at the Location. Never call under a new key: it would be done twice.",
	},
	{
		Code: CodePayloadDiffers, Status: 409, Title: "the idempotency key was used with another payload",
		Next: operation.NextWait, Advice: "Do not repeat the call. If it means what the first call meant, use the first one's result, or wait for it while state is in_flight. If it means something new and the first call is settled, call under a new key and name the first call in Oncegate-Instead-Of.",
	},
	{
		Code: CodeSuspectedRepeat, Status: 409, Title: "the same call was made a moment ago under another key",
		Next: operation.NextWait, Advice: "Do not invent keys. Do with the call that event names what next says: wait for its result, use it, or resume the call. Only if all of it is really to be done once more, and it is settled, call again and name it in Oncegate-Instead-Of. No key was spent.",
	},
	{
		Code: CodeMethodNotAllowed, Status: 405, Title: "the method is not accepted here",
		Next: operation.NextCorrect, Advice: "Use a method that the header Allow names.",
	},
	{
		Code: CodeContentType, Status: 415, Title: "the content type is not accepted",
		Next: operation.NextCorrect, Advice: "Send the payload in a content type that the source accepts. No key was spent.",
	},
	{
		Code: CodeContentEncoding, Status: 415, Title: "the content encoding is not accepted",
		Next: operation.NextCorrect, Advice: "Send the payload without a content encoding. No key was spent.",
	},
	{
		Code: CodeTooLarge, Status: 413, Title: "the payload is too large",
		Next: operation.NextCorrect, Advice: "Do not repeat the call. Send less, or ask the operator for a larger max_body. No key was spent.",
	},
	{
		Code: CodeIncomplete, Status: 408, Title: "the payload did not arrive whole, or too slowly", Retriable: true,
		Next: operation.NextRepeat, Advice: "Repeat the same call under the same key. Nothing was recorded.",
	},
	{
		Code: CodeQuota, Status: 429, Title: "too many calls, or too many new keys", Retriable: true, RetryAfter: 1,
		Next: operation.NextRepeat, Advice: "Wait as long as Retry-After says, then repeat the same call under the same key. Nothing was recorded.",
	},
	{
		Code: CodeOverloaded, Status: 503, Title: "there is no room for the call at the moment", Retriable: true, RetryAfter: 1,
		Next: operation.NextRepeat, Advice: "Wait as long as Retry-After says, then repeat the same call under the same key. Nothing was recorded.",
	},
	{
		Code: CodePaused, Status: 503, Title: "the operator has paused the source", Retriable: true, RetryAfter: 60,
		Next: operation.NextRepeat, Advice: "Wait as long as Retry-After says, then repeat the same call under the same key. Nothing was recorded. Ask the operator when the source takes calls again.",
	},
	{
		Code: CodeUnavailable, Status: 503, Title: "a fault kept the call from being answered", Retriable: true, RetryAfter: 5,
		Next: operation.NextRepeat, Advice: "Wait as long as Retry-After says, then repeat the same call under the same key: it may have been recorded, and the key keeps it from being done twice. Never call under a new key.",
	},
}

// Codes returns the table of all codes that an answer to a caller of operations may have.
func Codes() []CodeMeaning { return slices.Clone(codes[:]) }

// meaningOf finds a code's row. A code without one is a fault of ours.
func meaningOf(code Code) *CodeMeaning {
	for i := range codes {
		if codes[i].Code == code {
			return &codes[i]
		}
	}
	return meaningOf(CodeUnavailable)
}

// codeOf returns the code of a refusal. All failures of a credential have one code, because an
// unverified caller must learn nothing.
func codeOf(why reason) Code {
	switch why {
	case reasonMethod:
		return CodeMethodNotAllowed
	case reasonContentType:
		return CodeContentType
	case reasonContentEncoding:
		return CodeContentEncoding
	case reasonTooLarge:
		return CodeTooLarge
	case reasonTruncated, reasonSlow:
		return CodeIncomplete
	case reasonQuota:
		return CodeQuota
	case reasonParent:
		return CodeUnknownParent
	case reasonFollowHeader:
		return CodeFollowHeader
	case reasonParentUnsettled:
		return CodeParentUnsettled
	case reasonParentPruned:
		return CodeParentPruned
	case reasonFollowed:
		return CodeAlreadyFollowed
	case reasonResumeDiffers:
		return CodeResumeDiffers
	case reasonUnknownEvent, reasonUnknownSource:
		return CodeNotFound
	case reasonNotAllowed:
		return CodeOperationNotAllowed
	case reasonSessionExpired:
		return CodeSessionExpired
	case reasonSessionRevoked:
		return CodeSessionRevoked
	case reasonInvalidSession:
		return CodeInvalidSession
	case reasonUnknownOperation:
		return CodeUnknownOperation
	case reasonContractVersion:
		return CodeContractVersion
	case reasonSchema:
		return CodeSchema
	case reasonIntent:
		return CodeIntentDiffers
	case reasonSuspectedRepeat:
		return CodeSuspectedRepeat
	case reason(providers.ReasonUnidentified):
		return CodeUnidentified
	}
	return CodeUnauthorized
}
