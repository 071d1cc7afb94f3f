// Package delivery makes deliveries as senders make them: from the example of the catalogue, a
// fixture or a payload, with a chosen event id and type, signed with the secret of a source. It
// serves `oncegate send`, the test delivery of a source and package oncegatetest. It sends nothing.
package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// Draft is a delivery that is not signed yet.
type Draft struct {
	Header http.Header
	Body   []byte

	// EventID is the id of the event. If it was not chosen, it is the payload's, or a random one.
	EventID string

	// At is when the delivery is sent and signed.
	At time.Time
}

// Options describe a delivery. With At alone it is the provider's example as a new event.
type Options struct {
	// EventID and Type are put where the provider reads them. If they are empty, the payload's apply;
	// a payload of the catalogue or of a fixture gets a random event id.
	EventID, Type string

	// Fixture is the payload, instead of the provider's example. It must be one of the provider.
	Fixture *Fixture

	// Body is the payload, instead of the provider's example. It is sent unchanged, unless an event id or a type
	// must be put into it.
	Body []byte

	// Made is the time in a payload of the catalogue or of a fixture. The zero time means At. Two deliveries with the
	// same EventID and the same Made have the same body.
	Made time.Time

	// At is when the delivery is sent and signed. It is required.
	At time.Time
}

// ErrNoExample is returned for a provider of which the catalogue has no payload.
var ErrNoExample = errors.New("the catalogue has no example")

// ErrNoType is returned for a payload of GitHub without a type that could be derived from it, because GitHub sends
// the type in a header.
var ErrNoType = errors.New("GitHub names the event in a header, and the payload does not tell which")

// New makes the delivery that the options describe. The error says which of them the provider has no place for.
func New(p *providers.Provider, o Options) (*Draft, error) {
	spec := p.Spec()
	d := &Draft{Header: http.Header{}, EventID: cmp.Or(o.EventID, FreshEventID(p.Name())), At: o.At}
	made := o.Made
	if made.IsZero() {
		made = d.At
	}
	if o.Fixture != nil {
		if o.Fixture.Provider != p.Name() {
			return nil, fmt.Errorf("the fixture %s is of provider %s, and this is %s", o.Fixture.Name, o.Fixture.Provider, p.Name())
		}
		var err error
		if d.Header, d.Body, err = o.Fixture.fill(d.EventID, made); err != nil {
			return nil, err
		}
	} else {
		d.Header, d.Body = example(p, d.EventID, made)
	}
	switch {
	case o.Body != nil:
		if err := d.replaceBody(p, o); err != nil {
			return nil, err
		}
	case len(d.Body) == 0:
		return nil, ErrNoExample
	}
	identify(d.Header, spec.Identity.Candidates, d.EventID)
	if o.Type == "" {
		return d, nil
	}
	return d, d.place(spec.Type, o.Type, "type")
}

// replaceBody takes the payload of the options, with the event id in its place if one was chosen.
func (d *Draft) replaceBody(p *providers.Provider, o Options) error {
	d.Body = o.Body
	candidates := p.Spec().Identity.Candidates
	inBody := slices.ContainsFunc(candidates, func(c providers.Field) bool { return c.JSON != "" })
	if o.EventID != "" && inBody {
		if err := d.place(candidates, o.EventID, "event id"); err != nil {
			return err
		}
	}
	for _, c := range candidates {
		if own, ok := lookup(d.Body, c.JSON); ok && o.EventID == "" {
			d.EventID = own
			break
		}
	}
	if o.Type == "" && p.Name() == "github" {
		kind, ok := githubEvent(d.Body)
		if !ok {
			return ErrNoType
		}
		d.Header.Set("X-Github-Event", kind)
	}
	return nil
}

// Sign returns the request that the sender would make. address is the one that the signature covers, and mode one of
// the provider's ways to sign; the empty mode is the one that the headers show.
func (d *Draft) Sign(p *providers.Provider, mode, address string, secret providers.Secret) (*providers.Request, error) {
	r := &providers.Request{Method: http.MethodPost, URL: address, Header: d.Header.Clone(), Body: d.Body, ReceivedAt: d.At}
	if err := p.SignAs(mode, r, secret, d.EventID); err != nil {
		return nil, fmt.Errorf("signing as %s: %w", p.Name(), err)
	}
	return r, nil
}
