package oncegatetest

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/delivery"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// Delivery is a delivery of one event. Only Source is required.
type Delivery struct {
	// Source is the name of a source of the Config that takes deliveries over HTTP.
	Source string

	// EventID and Type are put where the sender puts them. Two deliveries with one EventID are the same event, with the
	// same body. Without an EventID each delivery of an example or a fixture is a new event. Without a Type it has the one of
	// the payload.
	EventID, Type string

	// Fixture names a payload that looks like a real one, such as stripe-invoice-paid. `oncegate send --list` shows all.
	// Without it and without Body, the payload is the catalogue's example of the sender, which is shorter.
	Fixture string

	// Body is the payload. It is sent unchanged, unless EventID or Type must be put into it.
	Body []byte

	// Header is added to the headers of the sender, and signed if the sender signs headers.
	Header http.Header

	// Secret signs the delivery. The default is the first secret of the source. Name another one to test a rotation, or a
	// wrong one to test a refusal. A sender that signs with a private key needs it here, because the source has only the
	// public one: see `oncegate providers sign --help`.
	Secret string

	// Mode is one of the ways in which the sender signs, if it has several: see `oncegate providers show`. The default is
	// what the headers show.
	Mode string
}

// Answer is the answer to a delivery.
type Answer struct {
	// Status is the HTTP status. 200 means that the event is committed.
	Status int

	// Outcome is recorded, duplicate or conflict, for example: see docs/reference/http.md. If the sender wants another
	// answer than Oncegate's own, it is acknowledged, try later or refused.
	Outcome string

	// Event is Oncegate's id of the event, for the log and the console. It is empty if nothing was recorded.
	Event string

	// EventID is the id of the event for [Inbox.Effects]: the sender's, or the one that is made of the body if the sender sends
	// none.
	EventID string

	// Body is the body of the answer.
	Body []byte
}

// Deliver delivers an event to [oncegate.Inbox.Handler] and returns the answer, whatever it is. It fails the test only if the
// delivery cannot be made.
func (i *Inbox) Deliver(tb testing.TB, d Delivery) Answer {
	tb.Helper()
	return i.DeliverTogether(tb, d)[0]
}

// DeliverTogether delivers at the same instant, and returns the answers in the order of the deliveries. Senders do this, also
// with one event.
func (i *Inbox) DeliverTogether(tb testing.TB, deliveries ...Delivery) []Answer {
	tb.Helper()
	requests, answers := make([]*providers.Request, len(deliveries)), make([]Answer, len(deliveries))
	for n, d := range deliveries {
		requests[n], answers[n].EventID = i.sign(tb, d)
	}
	var all sync.WaitGroup
	for n, r := range requests {
		all.Go(func() {
			w := httptest.NewRecorder()
			i.Handler().ServeHTTP(w, incoming(tb, r))
			a := &answers[n]
			a.Status, a.Body = w.Code, w.Body.Bytes()
			a.Outcome, a.Event = delivery.Outcome(a.Status, w.Header(), a.Body)
		})
	}
	all.Wait()
	return answers
}

// Request returns the signed request of a delivery for the program's own server or middleware. Its path is /in/ and the
// name of the source; change it before you serve it if the Handler is mounted elsewhere.
func (i *Inbox) Request(tb testing.TB, d Delivery) *http.Request {
	tb.Helper()
	r, _ := i.sign(tb, d)
	return incoming(tb, r)
}

// incoming returns a request as a server sees it.
func incoming(tb testing.TB, r *providers.Request) *http.Request {
	tb.Helper()
	in := httptest.NewRequestWithContext(tb.Context(), r.Method, r.URL, bytes.NewReader(r.Body))
	in.Header = r.Header
	return in
}

// sign returns the signed request of a delivery, and the sender's id of its event.
func (i *Inbox) sign(tb testing.TB, d Delivery) (*providers.Request, string) {
	tb.Helper()
	source := i.source(tb, d.Source)
	provider, err := source.Provider.Bind(providers.Binding{Settings: source.Values()})
	if err != nil {
		tb.Fatalf("oncegatetest: source %s: %v", d.Source, err)
	}
	o := delivery.Options{EventID: d.EventID, Type: d.Type, Body: d.Body, At: i.now(), Made: i.made}
	if d.Fixture != "" {
		if o.Fixture, err = delivery.FindFixture(d.Fixture); err != nil {
			tb.Fatalf("oncegatetest: Delivery.Fixture %v", err)
		}
	}
	draft, err := delivery.New(provider, o)
	switch {
	case errors.Is(err, delivery.ErrNoExample):
		tb.Fatalf("oncegatetest: %v of %s: give Delivery.Body", err, provider.Name())
	case errors.Is(err, delivery.ErrNoType):
		tb.Fatalf("oncegatetest: %v: give Delivery.Type", err)
	case err != nil:
		tb.Fatalf("oncegatetest: %v", err)
	}
	for name, values := range d.Header {
		draft.Header[http.CanonicalHeaderKey(name)] = values
	}
	secret := providers.Secret{Name: "test", Value: []byte(d.Secret)}
	if keys := source.Keys(); d.Secret == "" && len(keys) > 0 {
		secret = keys[0]
	}
	address := cmp.Or(source.ExternalURL, "http://example.com/in/"+source.Name)
	r, err := draft.Sign(provider, d.Mode, address, secret)
	if err != nil {
		tb.Fatalf("oncegatetest: %v", err)
	}
	id := draft.EventID
	// The source's keys are among them, because a private key verifies nothing.
	if verified, err := provider.Verify(r, append(source.Keys(), secret)); err == nil && len(verified.Items) > 0 {
		id = verified.Items[0].EventID
	}
	r.URL = "http://example.com/in/" + source.Name
	return r, id
}

// source returns the source of a name, which must take webhooks over HTTP.
func (i *Inbox) source(tb testing.TB, name string) *config.Source {
	tb.Helper()
	known := make([]string, len(i.settings.Sources))
	for n, s := range i.settings.Sources {
		known[n] = s.Name
	}
	at := slices.Index(known, name)
	if at < 0 {
		tb.Fatalf("oncegatetest: no source is called %q; %sthe sources are %s", name, yamltree.DidYouMean(known, name), strings.Join(known, ", "))
	}
	source := i.settings.Sources[at]
	switch {
	case !source.OverHTTP():
		tb.Fatalf("oncegatetest: source %s takes nothing over HTTP: publish a message to its broker", name)
	case source.Provider.IsOperation():
		tb.Fatalf("oncegatetest: source %s takes operations, not webhooks: have your client call Handler", name)
	}
	return source
}
