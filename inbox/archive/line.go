package archive

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/oncegate/oncegate/inbox"
)

// Kind says of what a line is. Stored: never change.
type Kind string

const (
	// Body is the body of a delivery with its headers.
	Body Kind = "body"
	// Conflict is a payload that was delivered under the id of an event with another payload.
	Conflict Kind = "conflict"
)

// Line is one body in an object.
type Line struct {
	Kind Kind
	// ID is the id of the body or of the conflict. Sealed content is bound to it.
	ID inbox.ID
	// Events are the events of the delivery. A conflict has one, the event with whose payload its own differs.
	Events []Event
	// Erased are the bytes of erased events that could not be blanked, because the key of the body was missing.
	Erased []Span
	// KeyID is the sealing key of Headers and Body; nil if they are plain.
	KeyID *int32
	// Headers are the headers as JSON, and Body is the body, both as they were stored.
	Headers, Body []byte
}

// Event is an event in a [Line].
type Event struct {
	ID         inbox.ID  `json:"id"`
	Source     string    `json:"source"`
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	ReceivedAt time.Time `json:"received_at"`

	// Span is where in the body the event is.
	Span
}

// Span is a range of bytes of a body.
type Span struct {
	Offset int `json:"offset"`
	Length int `json:"length"`
}

// key is what the lines of an object are sorted by.
func (l *Line) key() inbox.ID {
	if l.Kind == Conflict && len(l.Events) > 0 {
		return l.Events[0].ID
	}
	return l.ID
}

// lineJSON is the form of a line in an object. Content that is no text is in base64. Stored: never change.
type lineJSON struct {
	Kind          Kind     `json:"kind"`
	ID            inbox.ID `json:"id"`
	Events        []Event  `json:"events"`
	Erased        []Span   `json:"erased,omitempty"`
	KeyID         *int32   `json:"key_id,omitempty"`
	Headers       *string  `json:"headers,omitempty"`
	HeadersBase64 []byte   `json:"headers_base64,omitempty"`
	Body          *string  `json:"body,omitempty"`
	BodyBase64    []byte   `json:"body_base64,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (l Line) MarshalJSON() ([]byte, error) {
	out := lineJSON{Kind: l.Kind, ID: l.ID, Events: l.Events, Erased: l.Erased, KeyID: l.KeyID}
	if out.Events == nil {
		out.Events = []Event{}
	}
	out.Headers, out.HeadersBase64 = textOrBytes(l.Headers, l.KeyID != nil)
	out.Body, out.BodyBase64 = textOrBytes(l.Body, l.KeyID != nil)
	return json.Marshal(out)
}

// textOrBytes returns content as text, or as bytes if it is sealed or no UTF-8.
func textOrBytes(content []byte, sealed bool) (*string, []byte) {
	if sealed && len(content) > 0 || !utf8.Valid(content) {
		return nil, content
	}
	text := string(content)
	return &text, nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Line) UnmarshalJSON(text []byte) error {
	var in lineJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*l = Line{Kind: in.Kind, ID: in.ID, Events: in.Events, Erased: in.Erased, KeyID: in.KeyID, Headers: in.HeadersBase64, Body: in.BodyBase64}
	if in.Headers != nil {
		l.Headers = []byte(*in.Headers)
	}
	if in.Body != nil {
		l.Body = []byte(*in.Body)
	}
	return nil
}
