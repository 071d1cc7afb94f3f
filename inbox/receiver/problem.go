package receiver

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/internal/visible"
	"github.com/oncegate/oncegate/providers"
)

// problemType is where the codes are explained. RFC 9457 wants an absolute address that stays;
// programs compare the code.
const problemType = "https://github.com/oncegate/oncegate/blob/main/docs/reference/errors.md#"

// problem contains the facts of an answer besides its code. The zero problem contains none. A caller
// that is not verified must get no others.
type problem struct {
	// detail is one line that says what is wrong in this call. It never contains a value of another
	// call's payload.
	detail string

	// status is the HTTP status if the provider chooses one; 0 uses the code's.
	status int

	// retryAfter is in seconds; 0 uses the code's.
	retryAfter int

	// event is our id of the operation, zero if none is recorded. eventID is the whole key of it,
	// <credential>:<operation>:<key>, which is known before.
	event   inbox.ID
	eventID string

	// operation is the operation's name.
	operation string

	// intentHash is the hash of the canonical payload; nil if it is not known.
	intentHash []byte

	// state is the state of the operation, such as in_flight; empty if nothing is recorded.
	state string

	// expiresAt is until when the operation's key and result are kept at least (RFC 3339); empty if
	// that is not known.
	expiresAt string

	// paths are the JSON paths at which the payload differs, or does not fit.
	paths []string

	// result and payload are the stored result and the canonical payload of the call that has the
	// key. They are only for the credential that owns the key.
	result, payload json.RawMessage

	// next is what the caller should do, if that depends on another call; empty uses the code's.
	next operation.Next

	// location is the address of the operation that the caller should look at.
	location string
}

// problemDocument is a problem as RFC 9457 wants it. Programs read its members: never change one.
type problemDocument struct {
	Type       string          `json:"type"`
	Title      string          `json:"title"`
	Status     int             `json:"status"`
	Detail     string          `json:"detail,omitempty"`
	Code       Code            `json:"code"`
	Retriable  bool            `json:"retriable"`
	RetryAfter int             `json:"retry_after,omitempty"`
	Event      string          `json:"event,omitempty"`
	EventID    string          `json:"event_id,omitempty"`
	Operation  string          `json:"operation,omitempty"`
	IntentHash string          `json:"intent_hash,omitempty"`
	State      string          `json:"state,omitempty"`
	ExpiresAt  string          `json:"expires_at,omitempty"`
	Paths      []string        `json:"paths,omitzero"`
	Result     json.RawMessage `json:"result,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	Next       operation.Next  `json:"next"`
	Advice     string          `json:"advice"`
}

// problemReply makes the answer of a code. It is the only way to report a problem to a caller of
// operations.
func problemReply(code Code, p *problem) providers.Reply {
	meaning := meaningOf(code)
	document := problemDocument{
		Type: problemType + string(meaning.Code), Title: meaning.Title, Status: meaning.Status, Detail: p.detail, Code: meaning.Code,
		Retriable: meaning.Retriable, RetryAfter: meaning.RetryAfter, EventID: p.eventID, Operation: p.operation,
		IntentHash: hex.EncodeToString(p.intentHash), State: p.state, ExpiresAt: p.expiresAt, Paths: p.paths, Result: p.result, Payload: p.payload, Next: cmp.Or(p.next, meaning.Next), Advice: meaning.Advice,
	}
	if p.retryAfter > 0 {
		document.RetryAfter = p.retryAfter
	}
	if p.status > 0 {
		document.Status = p.status
	}
	reply := providers.Reply{Status: document.Status, ContentType: "application/problem+json"}
	if document.RetryAfter > 0 {
		reply.Header = withHeader(reply.Header, "Retry-After", strconv.Itoa(document.RetryAfter))
	}
	if !p.event.IsZero() {
		document.Event = p.event.String()
		reply.Header = withHeader(reply.Header, "Oncegate-Event", document.Event)
	}
	if p.location != "" {
		reply.Header = withHeader(reply.Header, "Location", p.location)
	}
	text, err := json.Marshal(&document)
	if err != nil { // a stored result or payload is not valid JSON
		return bare(http.StatusServiceUnavailable, "Retry-After", afterFault)
	}
	reply.Body = visible.JSON(text)
	return reply
}
