// Package scheme verifies the signatures that a provider's YAML cannot express. Each file contains
// one scheme and says in one line why it is written in Go. A scheme is as pure as the providers
// are: it opens no socket, reads no clock and keeps no state. It gets keys from an address through
// [Fetcher], and asks a provider through [Asker].
package scheme

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Scheme verifies requests with one signing method.
type Scheme interface {
	// Check returns an error for a secret that does not decode. A scheme without secrets returns an
	// error for every secret.
	Check(secret []byte) error

	// Prepare returns an error for settings with which nothing could be verified. Its argument
	// combines the provider's options and the source's settings.
	Prepare(settings Settings) error

	// Verify authenticates a request. An error is a *[Refusal], or a fault of Oncegate or a key
	// store, after which the sender should retry.
	Verify(in *Input) (Result, error)
}

// Signer is a scheme that can also sign requests, for `oncegate send` and tests. Sign changes
// header, body or URL of the input.
type Signer interface {
	Sign(in *Input, secret []byte) error
}

// Shaker is a scheme with its own handshake.
type Shaker interface {
	// Handshake answers a request that tests the endpoint. ok is false if the request is not such a
	// test.
	Handshake(in *Input) (reply Reply, ok bool, err error)
}

// Coverer is a scheme that authenticates a part of the event. Covers returns the JSON paths, form
// fields and headers that it authenticates.
type Coverer interface {
	Covers() []string
}

// Carrier is a scheme whose events are in a signed token inside the body.
type Carrier interface {
	// Document returns the JSON document that the body carries, without verifying it. ok is false
	// if the body carries none. The result depends on the arguments alone, and settings contains
	// the provider's options.
	Document(settings Settings, body []byte) (document []byte, ok bool)
}

// Secretless is a scheme that needs no secret, at least with some settings.
type Secretless interface {
	Secretless(settings Settings) bool
}

// Input is the request that a scheme verifies, with the configuration of its source.
type Input struct {
	Method string
	// URL is the address that the sender used.
	URL        string
	Header     http.Header
	Body       []byte
	ReceivedAt time.Time

	// Remote is the client's address, as a trusted proxy reports it if there is one. It is invalid
	// if the address is unknown.
	Remote netip.Addr
	// Proxied is true if the request came through a trusted proxy. Only then may a scheme trust the
	// headers about the connection.
	Proxied bool

	// Secrets contains the live secrets, at most eight.
	Secrets []Secret

	// Settings contains the provider's options and the source's settings.
	Settings Settings

	// Headers lists the headers that the provider's YAML names for the signature.
	Headers []string

	// Past and Future are the tolerances. A negative value means no limit.
	Past, Future time.Duration

	// Keys fetches keys. It may be nil, which is a fault if the scheme needs it.
	Keys Fetcher

	// Asker asks the provider. It may be nil, which is a fault if the scheme needs it.
	Asker Asker
}

// Secret is one of the source's secrets.
type Secret struct {
	Name  string
	Value []byte
}

// Result describes a verified request.
type Result struct {
	// Secret is the name of the secret that matched.
	Secret string

	// SignedAt is the signed time. It is zero if the signature covers none.
	SignedAt time.Time

	// Values contains what the scheme read from a document that is not JSON. Fields of kind form
	// read it in addition to a form body.
	Values url.Values

	// Document is the JSON document that a [Carrier] found in the body and verified. Events are read
	// from it instead of the body. It is nil for any other scheme.
	Document []byte

	// Covered is how many events of a batch the signature covers, counted from the first. 0 means
	// all of them. The other events are not authentic and are not used.
	Covered int
}

// Reply is the answer to a handshake.
type Reply struct {
	Status      int
	ContentType string
	Header      http.Header
	Body        []byte
}

// Refusal is the error for a request that is not authentic. Reason is one of the constants below,
// which package providers uses as well.
type Refusal struct{ Reason, Detail string }

// These are the reasons of a [Refusal].
const (
	Unsigned  = "unsigned"
	Malformed = "malformed"
	Mismatch  = "mismatch"
	Stale     = "stale"
	Early     = "early"
)

// Error returns reason and detail.
func (r *Refusal) Error() string { return r.Reason + ": " + r.Detail }

func refuse(reason, detail string) error { return &Refusal{reason, detail} }

// Table returns the schemes by the name that verify.family uses.
func Table() map[string]Scheme {
	return map[string]Scheme{
		"adobe-io":        AdobeIO{},
		"adyen":           Adyen{},
		"amazon-sns":      SNS{},
		"atlassian":       Atlassian{},
		"body-token":      BodyToken{},
		"braintree":       Braintree{},
		"content-digest":  ContentDigest{},
		"contentful":      Contentful{},
		"detached-jws":    Detached{},
		"event-grid":      EventGrid{},
		"hubspot":         HubSpot{},
		"ip":              IP{},
		"jwt":             JWT{},
		"mercado-pago":    MercadoPago{},
		"messagebird":     MessageBird{},
		"microsoft-graph": Graph{},
		"mtls":            MTLS{},
		"paddle-classic":  PaddleClassic{},
		"paypal":          PayPal{},
		"rfc9421":         MessageSignatures{},
		"segment":         Segment{},
		"truelayer":       TrueLayer{},
		"twilio":          Twilio{},
		"vonage-sms":      VonageSMS{},
	}
}

// Settings contains named lists of values.
type Settings map[string][]string

// One returns the first value, or an empty string.
func (s Settings) One(name string) string {
	if len(s[name]) == 0 {
		return ""
	}
	return s[name][0]
}

// Fetcher fetches the keys that verification needs from where the sender publishes them. Its
// implementation restricts the addresses that it contacts, caches documents, and limits size, time
// and rate.
type Fetcher interface {
	// Fetch returns a document of keys. An error is [ErrNoKey], a *[Deferral], or a fault of
	// Oncegate or the key store.
	Fetch(want KeyRequest) ([]byte, error)
}

// Confirmer is a Fetcher that must know which documents have verified a request, because it keeps
// these and renews them without a budget.
type Confirmer interface {
	// Confirm records that the document verified an authentic request.
	Confirm(want KeyRequest)
}

// KeyRequest names a document of keys.
type KeyRequest struct {
	// URL must be https with a host from Hosts: exact names, or *.example.com for the names below
	// example.com.
	URL   string
	Hosts []string

	// Body, if present, is posted as JSON.
	Body []byte

	// Claimed is true if the request under verification names the document, in URL or in Body. An
	// attacker can name any document, so such documents have a budget until they have verified a
	// request. If Claimed is false, the configuration names the document.
	Claimed bool

	// Held requests a cached copy only. If there is none, the error is [ErrNotHeld].
	Held bool

	// Renew is true if the cached copy lacks the wanted key. If the document may not be fetched
	// again yet, the error is a *[Deferral], unless the copy was fetched after the request under
	// verification arrived.
	Renew bool

	// ReceivedAt is when the request under verification arrived. Remote is the client that sent it;
	// it is invalid if the client is unknown.
	ReceivedAt time.Time
	Remote     netip.Addr

	// Check returns an error for an unusable document, which then does not replace the cached copy.
	// nil accepts every document.
	Check func(document []byte) error
}

// ErrNotHeld means that no copy is cached.
var ErrNotHeld = errors.New("no copy of the keys is in hand")

// Deferral means that a key is unknown and cannot be fetched now. It does not mean that the request
// is forged, so the sender should retry.
type Deferral struct {
	// After is how long the sender should wait. It is 0 if that is unknown.
	After time.Duration

	// Err is the reason. It never contains content of a request.
	Err error
}

// Error returns the reason.
func (d *Deferral) Error() string { return "the key cannot be asked for now: " + d.Err.Error() }

// Unwrap returns Err, which is the error of the last attempt if there was one.
func (d *Deferral) Unwrap() error { return d.Err }

// ErrNoKey means that the key store answered that it does not have the key. The request is then not
// authentic, and the store works correctly.
var ErrNoKey = errors.New("no such key")

// StoreError is any other error response of a key store.
type StoreError struct {
	Status int
	Body   []byte
}

// Error returns the status only, because the body may contain anything.
func (e *StoreError) Error() string { return "the key store answered " + http.StatusText(e.Status) }

var errNoFetcher = errors.New("keys must be fetched, and there is nothing to fetch them with")

func (in *Input) fetch(want KeyRequest) ([]byte, error) {
	if in.Keys == nil {
		return nil, errNoFetcher
	}
	want.ReceivedAt, want.Remote = in.ReceivedAt, in.Remote
	return in.Keys.Fetch(want)
}

// confirm reports to the fetcher that a document has verified an authentic request.
func (in *Input) confirm(want KeyRequest) {
	if c, ok := in.Keys.(Confirmer); ok {
		want.Remote = in.Remote
		c.Confirm(want)
	}
}

// maxHeader is the longest header value that is read, in bytes.
const maxHeader = 16 << 10

// header returns the only value of a header, or an empty string if the header is absent.
func (in *Input) header(name string) (string, error) {
	values := in.Header[http.CanonicalHeaderKey(name)]
	switch {
	case len(values) > 1:
		return "", refuse(Malformed, "header "+name+" is present more than once")
	case len(values) == 0:
		return "", nil
	case len(values[0]) > maxHeader:
		return "", refuse(Malformed, "header "+name+" is too long")
	}
	return values[0], nil
}

// needed returns the only value of a required header. It refuses the request with reason if the
// header is absent.
func (in *Input) needed(name, reason string) (string, error) {
	value, err := in.header(name)
	if err == nil && value == "" {
		err = refuse(reason, "header "+name+" is missing")
	}
	return value, err
}

// fresh compares a signed time with the time of receipt.
func (in *Input) fresh(at time.Time) error {
	age := in.ReceivedAt.Sub(at)
	switch {
	case in.Past >= 0 && age > in.Past:
		return refuse(Stale, "signed "+age.Truncate(time.Second).String()+" before it was received")
	case in.Future >= 0 && -age > in.Future:
		return refuse(Early, "signed "+(-age).Truncate(time.Second).String()+" after it was received")
	}
	return nil
}

// same compares two texts in constant time.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
