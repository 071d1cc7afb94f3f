package providers

import (
	"log/slog"
	"net/http"
	"net/netip"
	"time"
)

// Request is one HTTP arrival, as the receiver read it.
type Request struct {
	Method string

	// URL is the address that the sender used, for schemes that sign it: the source's configured
	// external URL if there is one, otherwise the address in the request.
	URL string

	Header http.Header

	// Body contains the exact bytes received, which are verified before anything parses them. The
	// provider must not keep or change it.
	Body []byte

	// ReceivedAt is when the request arrived. A provider has no other clock.
	ReceivedAt time.Time

	// Remote is the client's address, as reported by a trusted proxy or else by the connection. It
	// is invalid if the address is unknown.
	Remote netip.Addr

	// Proxied is true if the request came through a trusted proxy. Only then may a provider trust
	// the headers about the client's certificate.
	Proxied bool
}

// Payload returns the content of the request: its body or, for a GET without a body, the query of
// its address, which has the format of a form.
func (r *Request) Payload() []byte {
	if r.bodiless() {
		return []byte(urlPart(r.URL, "query"))
	}
	return r.Body
}

func (r *Request) bodiless() bool { return r.Method == http.MethodGet && len(r.Body) == 0 }

// Secret is a signing secret that cannot print itself.
type Secret struct {
	// Name identifies the secret in metrics. For operations it is also the name of the credential,
	// unless Credential is set. It is not secret.
	Name string

	// Credential is the name of the credential that the secret belongs to, for operations. The name
	// is part of every key and the secret is not, so several secrets of one credential result in
	// the same keys. If it is empty, Name is used.
	Credential string

	// Value is the secret as configured, before the provider's key decoding.
	Value []byte

	// NotAfter is when the secret expires. Zero means never.
	NotAfter time.Time
}

const redacted = "<secret>"

// String hides the value.
func (Secret) String() string { return redacted }

// GoString hides the value.
func (Secret) GoString() string { return redacted }

// LogValue hides the value.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON hides the value.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalYAML hides the value.
func (Secret) MarshalYAML() (any, error) { return redacted, nil }

// Delivery is a verified request and its events. It may legitimately have no events (an empty
// batch).
type Delivery struct {
	Items []Item

	// SignedAt is the time inside the signature, or the time of the request if the provider sends one that its signature does not cover
	// ([TimestampSpec.Unsigned]). It is zero if there is none. An uncovered time may hold an old event for an operator, because that is
	// the safe error, and must decide nothing else.
	SignedAt time.Time

	// Secret is the name of the secret that matched, for the rotation metric.
	Secret string

	// Credential is the name of the credential whose secret matched, for operations. The event's id
	// begins with it.
	Credential string

	// GivenKey is the key that the caller of an operation chose. It is nil if a recipe made the
	// key.
	GivenKey *GivenKey

	// IDUnsigned is true if the signature covers neither the event ids nor a transmission. Anyone with one
	// delivery could then present its body under new ids.
	IDUnsigned bool
}

// TypeUnknown is the type of an event in which none of the provider's rules finds a type.
const TypeUnknown = "unknown"

// Item is one event of a delivery.
type Item struct {
	// EventID is the provider's id of the event, at most 255 bytes. If the provider sends none, it
	// is "sha256:" and the digest of the payload, or "level:", the time of receipt and a digest if
	// identical payloads are different events. It is empty only together with Unusable.
	EventID string

	// Transmission is the signed id of the transmission, at most 255 bytes, for a provider whose events have one. It is
	// empty for all others.
	Transmission string

	// Type is the provider's event type, at most 255 bytes.
	Type string

	// OccurredAt is the provider's time of the event. It is zero if the provider sends none.
	OccurredAt time.Time

	// Dated is true if OccurredAt is the time of the event itself, not of the facts that it
	// reports, and the signature covers it. Only then does it show the event's age.
	Dated bool

	// SequenceKey names the sequence of the event. It is empty if the event has none.
	SequenceKey string

	// SequenceNumber is a decimal integer (a time is in nanoseconds since 1970). It is empty if the
	// event has none.
	SequenceNumber string

	// Offset and Length locate the item's bytes inside the body.
	Offset, Length int

	// Unknown is true if none of the provider's rules finds a type in the event. Type is then
	// [TypeUnknown].
	Unknown bool

	// Unusable is the reason why a signed event cannot be used (not parsable, its id or type cannot
	// be stored, ...). It is empty for a usable event. Oncegate admits an unusable event under the
	// key "~" + sha256 of its bytes and shows it as a dead letter, so it is never lost.
	Unusable string
}

// Reply is an answer that the provider defines.
type Reply struct {
	Status      int
	ContentType string
	Header      http.Header
	Body        []byte

	// Arrived is a secret that a handshake delivered. It is not trusted, because the request proves
	// nothing about its sender. The operator sees it and adds it to the source if they have just
	// subscribed. It is nil if the handshake delivered no secret, or one that is already known.
	Arrived *Secret
}
