// Package scheme verifies what a provider's YAML cannot express. Each file is
// one scheme and says in one line why it is Go. A scheme is as pure as the
// providers are: it opens no socket, reads no clock and keeps nothing; keys that
// live at an address come through [Fetcher], and what only the provider can say
// through [Asker].
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

// Scheme verifies the requests of one way of signing.
type Scheme interface {
	// Check refuses a secret that does not decode. A scheme without secrets refuses
	// every one.
	Check(secret []byte) error

	// Prepare refuses settings with which nothing could be verified. It sees the
	// provider's options and the source's settings, put together.
	Prepare(settings Settings) error

	// Verify authenticates a request. The error is a *[Refusal], or else a fault of
	// ours or of a key store, which asks the sender to come again.
	Verify(in *Input) (Result, error)
}

// Signer is a scheme that can also make requests, for `oncegate send` and tests.
// It changes header, body or URL of the input.
type Signer interface {
	Sign(in *Input, secret []byte) error
}

// Shaker is a scheme with a handshake of its own.
type Shaker interface {
	// Handshake answers a request that tests the endpoint; ok is false if it is none.
	Handshake(in *Input) (reply Reply, ok bool, err error)
}

// Coverer is a scheme that authenticates a part of the event: it names the JSON
// paths, form fields and headers that it covers.
type Coverer interface {
	Covers() []string
}

// Secretless is a scheme that takes no secret, or can do without.
type Secretless interface {
	Secretless(settings Settings) bool
}

// Input is a request as a scheme sees it.
type Input struct {
	Method string
	// URL is the address the sender used.
	URL        string
	Header     http.Header
	Body       []byte
	ReceivedAt time.Time

	// Remote is the client's address, taken from a trusted proxy if there is one;
	// invalid if it is not known.
	Remote netip.Addr
	// Proxied says that the request came through a trusted proxy, whose headers
	// about the connection may be believed.
	Proxied bool

	// Secrets are the live ones, at most eight.
	Secrets []Secret

	// Settings are the provider's options and the source's settings.
	Settings Settings

	// Headers are those that the provider's YAML names for the signature.
	Headers []string

	// Past and Future are the tolerances; negative is none.
	Past, Future time.Duration

	// Keys fetches keys; it may be nil, which is a fault for schemes that need it.
	Keys Fetcher

	// Asker asks the provider; it may be nil, which is a fault where it is needed.
	Asker Asker
}

// Secret is one of the source's.
type Secret struct {
	Name  string
	Value []byte
}

// Result is what a verified request says.
type Result struct {
	// Secret is the name of the secret that matched.
	Secret string

	// SignedAt is the authentic time; zero where none is signed.
	SignedAt time.Time

	// Values are read by fields of kind form, beside those of a form body: what the
	// scheme found in a document that is not JSON.
	Values url.Values

	// Covered is how many events of a batch the signature reaches, from the first;
	// 0 is all of them. The others are not authentic, and not used.
	Covered int
}

// Reply answers a handshake.
type Reply struct {
	Status      int
	ContentType string
	Header      http.Header
	Body        []byte
}

// Refusal is a request that is not authentic. Reason is one of the words below,
// which are those of package providers.
type Refusal struct{ Reason, Detail string }

// The reasons.
const (
	Unsigned  = "unsigned"
	Malformed = "malformed"
	Mismatch  = "mismatch"
	Stale     = "stale"
	Early     = "early"
)

// Error gives reason and detail.
func (r *Refusal) Error() string { return r.Reason + ": " + r.Detail }

func refuse(reason, detail string) error { return &Refusal{reason, detail} }

// Table lists the schemes by the name that verify.family gives.
func Table() map[string]Scheme {
	return map[string]Scheme{
		"adobe-io":        AdobeIO{},
		"adyen":           Adyen{},
		"amazon-sns":      SNS{},
		"atlassian":       Atlassian{},
		"braintree":       Braintree{},
		"content-digest":  ContentDigest{},
		"contentful":      Contentful{},
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
		"twilio":          Twilio{},
		"vonage-sms":      VonageSMS{},
	}
}

// Settings are named lists of values.
type Settings map[string][]string

// One is the first value, or nothing.
func (s Settings) One(name string) string {
	if len(s[name]) == 0 {
		return ""
	}
	return s[name][0]
}

// Fetcher gets the keys that verification needs from where the sender publishes
// them. Its implementation guards what may be reached, caches, and bounds size,
// time and rate.
type Fetcher interface {
	// Fetch gives a document of keys. An error is [ErrNoKey], a *[Deferral], or a fault
	// of ours or of the key store.
	Fetch(want KeyRequest) ([]byte, error)
}

// Confirmer is a Fetcher that wants to know which documents have verified something,
// so that it keeps them and asks for them again without reserve.
type Confirmer interface {
	// Confirm says that a request which the document verified is authentic.
	Confirm(want KeyRequest)
}

// KeyRequest names a document of keys.
type KeyRequest struct {
	// URL must be https, its host one of Hosts: exact names, or *.example.com for
	// the names below one.
	URL   string
	Hosts []string

	// Body, if there is one, is posted as JSON.
	Body []byte

	// Claimed says that the request under verification names the document, in URL or
	// in Body. Anybody can name another one, so such documents have a budget until
	// they have verified something. Without Claimed the configuration names it.
	Claimed bool

	// Held asks for a copy in hand only; without one the error is [ErrNotHeld].
	Held bool

	// Renew says that the copy in hand lacks the key wanted. Where the document may
	// not be asked for again yet, the error is a *[Deferral], unless the copy is newer
	// than the request under verification.
	Renew bool

	// ReceivedAt is when the request under verification was received, and Remote the
	// client that it came from; invalid if that is not known.
	ReceivedAt time.Time
	Remote     netip.Addr

	// Check refuses a document that cannot be used, which then does not take the
	// place of the copy in hand. nil takes every document.
	Check func(document []byte) error
}

// ErrNotHeld means that no copy is in hand.
var ErrNotHeld = errors.New("no copy of the keys is in hand")

// Deferral is a key that is not known and cannot be asked for now. It says nothing
// about the request, and whoever sent it is to come again.
type Deferral struct {
	// After is how long the sender should wait; 0 if that is not known.
	After time.Duration

	// Err says why, without content.
	Err error
}

// Error says why.
func (d *Deferral) Error() string { return "the key cannot be asked for now: " + d.Err.Error() }

// Unwrap gives what the last attempt ended with, where there was one.
func (d *Deferral) Unwrap() error { return d.Err }

// ErrNoKey is a key store's answer that it does not have the key: the request is
// then not authentic, and the store is not at fault.
var ErrNoKey = errors.New("no such key")

// StoreError is another answer of a key store.
type StoreError struct {
	Status int
	Body   []byte
}

// Error gives the status; the body may hold anything.
func (e *StoreError) Error() string { return "the key store answered " + http.StatusText(e.Status) }

var errNoFetcher = errors.New("keys must be fetched, and there is nothing to fetch them with")

func (in *Input) fetch(want KeyRequest) ([]byte, error) {
	if in.Keys == nil {
		return nil, errNoFetcher
	}
	want.ReceivedAt, want.Remote = in.ReceivedAt, in.Remote
	return in.Keys.Fetch(want)
}

// confirm tells the fetcher that a document has verified an authentic request.
func (in *Input) confirm(want KeyRequest) {
	if c, ok := in.Keys.(Confirmer); ok {
		want.Remote = in.Remote
		c.Confirm(want)
	}
}

// maxHeader is the longest header that is read, in bytes.
const maxHeader = 16 << 10

// header returns the one value of a header; absent is empty.
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

// needed returns the one value of a header that must be there.
func (in *Input) needed(name, reason string) (string, error) {
	value, err := in.header(name)
	if err == nil && value == "" {
		err = refuse(reason, "header "+name+" is missing")
	}
	return value, err
}

// fresh compares an authentic time with the receipt.
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

// same compares two texts in a time that tells nothing of either.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
