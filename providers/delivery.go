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

	// URL is the address the sender used, where a scheme signs it: the source's
	// configured external URL when there is one, else what the request says.
	URL string

	Header http.Header

	// Body is the exact bytes received. Verification happens on them before
	// anything parses them. The provider must not keep or change it.
	Body []byte

	// ReceivedAt is the only clock a provider has.
	ReceivedAt time.Time

	// Remote is the client's address, as a trusted proxy or else the connection
	// tells it; invalid if it is not known.
	Remote netip.Addr

	// Proxied says that the request came through a trusted proxy, so that what its
	// headers say about the client's certificate can be believed.
	Proxied bool
}

// Payload is what the request brings: its body or, where it came by GET, the query
// of its address, which is written as a form is.
func (r *Request) Payload() []byte {
	if r.bodiless() {
		return []byte(urlPart(r.URL, "query"))
	}
	return r.Body
}

func (r *Request) bodiless() bool { return r.Method == http.MethodGet && len(r.Body) == 0 }

// Secret is a signing secret that cannot print itself.
type Secret struct {
	// Name tells the secrets of one source apart in metrics. For operations it also names
	// the credential, unless Credential does. It is not secret.
	Name string

	// Credential is the name of the credential that the secret belongs to, for operations.
	// The name is part of every key, and the secret is not: several secrets of one credential
	// make the same keys. Empty takes Name.
	Credential string

	// Value is the secret as configured, before the provider's key decoding.
	Value []byte

	// NotAfter is when the secret stops being accepted; zero means never.
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

// Delivery is a verified request: what it says about itself and the events it
// carries. A delivery may legally carry none (an empty batch).
type Delivery struct {
	Items []Item

	// SignedAt is the time inside the signature; zero where none is signed.
	SignedAt time.Time

	// Secret is the name of the secret that matched, for the rotation metric.
	Secret string

	// Credential is the name of the credential whose secret matched, for operations. It leads
	// the event's id.
	Credential string

	// GivenKey is the key that the caller of an operation chose; nil if a recipe made it.
	GivenKey *GivenKey

	// IDUnsigned says that the event ids are not covered by the signature, so
	// that somebody holding one delivery could present its body under new ids.
	IDUnsigned bool
}

// TypeUnknown is the type of an event in which no rule of its provider finds one.
const TypeUnknown = "unknown"

// Item is one event of a delivery.
type Item struct {
	// EventID is the provider's id of the event, at most 255 bytes, or where it gives
	// none "sha256:" and the digest of the payload. It is empty only together with
	// Unusable.
	EventID string

	// Type is the provider's event type, at most 255 bytes.
	Type string

	// OccurredAt is the provider's time; zero if it gives none.
	OccurredAt time.Time

	// Dated says that OccurredAt is when the event itself came about, not what it
	// tells of, and that the signature covers it: the event's age can be judged by it.
	Dated bool

	// SequenceKey names the stream the event belongs to; empty if none.
	SequenceKey string

	// SequenceNumber is a decimal integer (times are in nanoseconds since 1970);
	// empty if none.
	SequenceNumber string

	// Offset and Length are the item's bytes inside the body.
	Offset, Length int

	// Unknown says that no rule of the provider finds a type in the event, whose Type
	// is then [TypeUnknown].
	Unknown bool

	// Unusable is why a signed event cannot be used (not parsable, its id or type
	// cannot be stored, ...); empty for a usable one. The event is then admitted under
	// the key "~" + sha256 of its bytes, visible as a dead letter, never lost.
	Unusable string
}

// Reply is an answer that the provider dictates.
type Reply struct {
	Status      int
	ContentType string
	Header      http.Header
	Body        []byte

	// Arrived is a secret that a handshake brought. It is not trusted: nobody has
	// proved anything. The operator is to be shown it, and adds it to the source if
	// they have just subscribed; nil where none came or it is known already.
	Arrived *Secret
}
