package buffer

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/broker"
)

// The content types of messages, in plain and sealed. A message is a line of JSON, the [envelope], and the body of the delivery.
// Published: never change.
const (
	plainType  = "application/vnd.oncegate.delivery"
	sealedType = "application/vnd.oncegate.delivery+sealed"
)

// The attributes of messages. Published: never change.
const (
	idAttribute  = "id"  // the id of the message, of which the key that it is sealed with is derived
	keyAttribute = "key" // the id of the key of the keyring
)

// The tokens of subjects after the name of the stream. Published: never change.
const (
	unorderedToken = "unordered"
	orderedToken   = "ordered"
)

// Subjects returns the subjects of messages that may be admitted in any order, and of those that must keep their order, in the
// stream with the name.
func Subjects(name string) (unordered, ordered string) {
	return name + "." + unorderedToken + ".>", name + "." + orderedToken + ".>"
}

// envelope is an admission without its body. Published: never change the names.
type envelope struct {
	Source      string          `json:"source"` // its first name
	ReceivedAt  time.Time       `json:"received_at"`
	Tenant      string          `json:"tenant,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	IDUnsigned  bool            `json:"id_unsigned,omitempty"`
	Headers     json.RawMessage `json:"headers,omitempty"`
	Events      []event         `json:"events"`
}

// event is an event of an admission.
type event struct {
	ID             string    `json:"id,omitempty"`
	Type           string    `json:"type,omitempty"`
	OccurredAt     time.Time `json:"occurred_at,omitzero"`
	DatedAt        time.Time `json:"dated_at,omitzero"`
	Offset         int       `json:"offset"`
	Length         int       `json:"length"`
	Transmission   string    `json:"transmission,omitempty"`
	Unusable       string    `json:"unusable,omitempty"`
	SequenceKey    string    `json:"sequence_key,omitempty"`
	SequenceNumber string    `json:"sequence_number,omitempty"`
}

// message makes the message of an admission.
func (b *Buffer) message(a *inbox.Admission) (*broker.Message, error) {
	env := envelope{
		Source: a.Source.FirstName(), ReceivedAt: a.ReceivedAt, Tenant: a.Tenant, Traceparent: a.Traceparent, IDUnsigned: a.IDUnsigned,
		Headers: a.Headers, Events: make([]event, len(a.Events)),
	}
	for i := range a.Events {
		e := &a.Events[i]
		env.Events[i] = event{e.EventID, e.Type, e.OccurredAt, e.DatedAt, e.Offset, e.Length, e.Transmission, e.Unusable, e.SequenceKey, e.SequenceNumber}
	}
	text, err := json.Marshal(env)
	if err != nil {
		return nil, fmt.Errorf("writing the envelope: %w", err)
	}
	id := b.id(&env, a.Body)
	out := &broker.Message{
		ID: id, Place: b.cfg.Name + "." + unorderedToken + "." + env.Source, ContentType: plainType,
		Attributes: []broker.Attribute{{Name: idAttribute, Value: id}},
		Body:       append(append(text, '\n'), a.Body...),
	}
	if b.cfg.Ordered(a.Source) {
		out.Place = b.cfg.Name + "." + orderedToken + "." + env.Source
	}
	if sealed, key := b.cfg.Keyring.Seal(placeOf(id), out.Body); key != nil {
		out.Body, out.ContentType = sealed, sealedType
		out.Attributes = append(out.Attributes, broker.Attribute{Name: keyAttribute, Value: strconv.Itoa(int(*key))})
	}
	return out, nil
}

// id returns the id of a message. It is made of the source, the ids of the events and the body, so that the stream recognises the
// same delivery, and does not take a delivery for it that has other content under the same id: the gate keeps such a conflict.
func (b *Buffer) id(env *envelope, body []byte) string {
	h := sha256.New()
	add := func(text string) {
		_ = binary.Write(h, binary.BigEndian, uint32(len(text))) // a hash never fails
		h.Write([]byte(text))
	}
	add(env.Source)
	for i := range env.Events {
		add(env.Events[i].ID)
		add(env.Events[i].Transmission)
	}
	h.Write(body)
	sum := h.Sum(nil)
	if b.cfg.Secret != nil {
		mac := hmac.New(sha256.New, b.cfg.Secret)
		mac.Write(sum)
		sum = mac.Sum(nil)
	}
	return hex.EncodeToString(sum)
}

// placeOf returns the place for which a message is sealed.
func placeOf(id string) seal.Place {
	sum := sha256.Sum256([]byte(id))
	return seal.Place{Table: "buffer", Column: "message", Row: [16]byte(sum[:16])}
}

// errForeign is returned for a message that is not one of ours.
var errForeign = errors.New("a message of the stream is no delivery of Oncegate: remove it from the stream")

// read returns the admission of a message, without its source, and the first name of the source.
func (b *Buffer) read(header http.Header, body []byte) (a *inbox.Admission, source string, err error) {
	switch header.Get("Content-Type") {
	case plainType:
		if b.cfg.Keyring.Ring() != nil {
			return nil, "", errPlain
		}
	case sealedType:
		key, err := strconv.ParseInt(header.Get("Ce-"+keyAttribute), 10, 32)
		if err != nil {
			return nil, "", errForeign
		}
		if body, err = b.cfg.Keyring.Open(placeOf(header.Get("Ce-"+idAttribute)), new(int32(key)), body); err != nil {
			return nil, "", fmt.Errorf("a buffered delivery cannot be opened: %w", err)
		}
	default:
		return nil, "", errForeign
	}
	line, rest, found := bytes.Cut(body, []byte{'\n'})
	var env envelope
	if !found || json.Unmarshal(line, &env) != nil || len(env.Events) == 0 {
		return nil, "", errForeign
	}
	a, err = env.admission(rest)
	return a, env.Source, err
}

// errPlain is returned for a message in plain while there is a keyring. Everybody who may publish can have made it.
var errPlain = errors.New("a buffered delivery is not sealed, although seal.keyring is set: if it was buffered before there was a keyring, start one process without the keyring until the stream is empty")

// admission returns the admission that the envelope describes.
func (env *envelope) admission(body []byte) (*inbox.Admission, error) {
	a := &inbox.Admission{
		Body: body, Headers: env.Headers, ReceivedAt: env.ReceivedAt, Tenant: env.Tenant, Traceparent: env.Traceparent,
		IDUnsigned: env.IDUnsigned, Buffered: true, Events: make([]inbox.NewEvent, len(env.Events)),
	}
	for i := range env.Events {
		e := &env.Events[i]
		if e.Offset < 0 || e.Length < 0 || e.Offset > len(body) || e.Length > len(body)-e.Offset {
			return nil, errForeign
		}
		a.Events[i] = inbox.NewEvent{
			EventID: e.ID, Type: e.Type, OccurredAt: e.OccurredAt, DatedAt: e.DatedAt, Offset: e.Offset, Length: e.Length,
			Transmission: e.Transmission, Unusable: e.Unusable, SequenceKey: e.SequenceKey, SequenceNumber: e.SequenceNumber,
		}
	}
	return a, nil
}
