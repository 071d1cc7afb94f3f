// Package draft writes a provider for a sender that the catalogue does not know,
// from one captured request and the secret of its subscription. It looks for the
// signature in everything that the request carries, tries the ways in which
// senders are known to sign, keeps those with which the request verifies, and
// guesses from names and shapes which member is the event's id, type and time.
//
// Nothing that it returns holds the secret.
package draft

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// Options say what is known of the sender. Secret or PublicKey is required.
type Options struct {
	// Name is the provider's name in the YAML. Empty makes one of the request's headers.
	Name string

	// SecretName is the environment variable that holds the secret, for the YAML.
	SecretName string

	// Secret is the secret as the sender shows it, or a public key: PEM, or 32 bytes in
	// hex or base64.
	Secret []byte

	// Catalog are the providers that the request may be of. It may be empty.
	Catalog map[string]*providers.Provider

	// Continue is asked from time to time whether to go on, and told how many
	// combinations were tried and about how many there are. Nil goes on to the end.
	Continue func(tried, total int64) bool
}

// Result is what was found.
type Result struct {
	// Name is the provider's name in the YAML.
	Name string

	// Looks are the providers of the catalogue that the request is probably of, the
	// likeliest first.
	Looks []Look

	// Fits are the ways in which the request verifies, the safest first. The YAML has
	// the first.
	Fits []Fit

	// Near are ways in which the request is proved that no provider can be written for,
	// or not with the secret as it is, each with what to do.
	Near []string

	// Guesses say what is taken for id, type, time and sequence, and why.
	Guesses []Guess

	// Tried says what was looked at.
	Tried Tried

	// YAML is a configuration of the provider and one source; empty if nothing fits.
	YAML string

	// Provider is the drafted provider; nil if nothing fits.
	Provider *providers.Provider
}

// Look is a provider of the catalogue that resembles the request's sender.
type Look struct {
	Name string `json:"name"`
	// Verified says that the request verifies as one of this provider.
	Verified bool `json:"verified"`
	// Why names the headers that the two have in common.
	Why string `json:"why"`
}

// Fit is a way in which the request verifies.
type Fit struct {
	// Text says in one line what is signed, with what, and where the signature is.
	Text string `json:"text"`
	// Covers is body, part or origin: what the proof is worth.
	Covers string `json:"covers"`
	// SignsTime says that a time is among what is signed.
	SignsTime bool `json:"signs_time"`
	// Notes are what the operator has to know of it.
	Notes []string `json:"notes,omitempty"`

	address bool   // the address is signed
	time    string // the header that holds the signed time
	verify  string // the section of the YAML, without indentation
	extends string
	covered map[string]bool // the headers that are signed
	score   int
}

// Guess is a member that was taken for something.
type Guess struct {
	// What is id, type, time or sequence.
	What string `json:"what"`
	// Where is the member, such as JSON event_id; empty if none was found.
	Where string `json:"where,omitempty"`
	// Sure is likely, a guess or none.
	Sure string `json:"sure"`
	Why  string `json:"why"`
}

// Tried is how far the search went.
type Tried struct {
	Combinations int64    `json:"combinations"`
	Carriers     []string `json:"carriers"`
	Keys         []string `json:"keys"`
	Forms        []string `json:"forms"`
	// Cut says that the search was ended before everything was tried.
	Cut bool `json:"cut"`
}

// Make drafts a provider. The error is about the options; where nothing fits, the
// result has no fit and says what was tried.
func Make(req *providers.Request, o Options) (*Result, error) {
	if len(strings.TrimSpace(string(o.Secret))) == 0 {
		return nil, errors.New("drafting a provider: the secret is empty")
	}
	c := capture(req)
	s := newSearch(c, o)
	out := &Result{Name: o.Name}
	out.Looks = looks(c, o)
	s.run()
	fits := append(s.fits(), credentials(c, o)...)
	fits = append(fits, tokens(c, o)...)
	fits = append(fits, structured(c, o)...)
	fits = append(fits, families(c, o)...)
	slices.SortStableFunc(fits, func(a, b Fit) int { return cmp.Compare(b.score, a.score) })
	out.Near = append(s.near, near(c, o)...)
	out.Tried = s.tried()
	if out.Name == "" {
		out.Name = c.name(o)
	}
	for i := range fits {
		text, guesses := write(out.Name, c, &fits[i], o)
		p, err := confirm(out.Name, text, c, &fits[i], o)
		if err != nil {
			continue // it matched by chance, or a provider cannot say it
		}
		out.Fits = append(out.Fits, fits[i])
		if out.Provider == nil {
			out.Provider, out.Guesses = p, guesses
			out.YAML = configuration(out.Name, text, c, &fits[i], o)
		}
		if base := fits[i].extends; base != "" && !slices.ContainsFunc(out.Looks, func(l Look) bool { return l.Name == base }) {
			out.Looks = append(out.Looks, Look{Name: base, Verified: true, Why: "a way of signing that only this provider has"})
		}
	}
	return out, nil
}

// confirm reads the draft as any provider of a configuration and requires that it
// verifies the request, and nothing else in its place.
func confirm(name, text string, c *captured, f *Fit, o Options) (*providers.Provider, error) {
	p, err := providers.ParseOver(name, []byte(text), o.Catalog)
	if err != nil {
		return nil, fmt.Errorf("reading the draft: %w", err)
	}
	secrets := []providers.Secret{{Name: "draft", Value: o.Secret}}
	if err := p.CheckSecrets(secrets); err != nil {
		return nil, fmt.Errorf("taking the secret: %w", err)
	}
	if !authentic(p, c.req, secrets) {
		return nil, errors.New("the request does not verify")
	}
	other := slices.Clone(o.Secret)
	other[len(other)/2] ^= 1
	wrong := []providers.Secret{{Name: "draft", Value: other}}
	if p.CheckSecrets(wrong) == nil && authentic(p, c.req, wrong) {
		return nil, errors.New("the request verifies with another secret")
	}
	if len(c.req.Body) > 0 && f.Covers == "body" && f.extends == "" {
		changed := *c.req
		changed.Body = slices.Clone(c.req.Body)
		changed.Body[len(changed.Body)/2] ^= 1
		if authentic(p, &changed, secrets) {
			return nil, errors.New("the request verifies with another body")
		}
	}
	return p, nil
}

// authentic reports whether a request is proved, whenever it was signed.
func authentic(p *providers.Provider, req *providers.Request, secrets []providers.Secret) bool {
	_, err := p.Verify(req, secrets)
	refusal, ok := errors.AsType[*providers.Refusal](err)
	return err == nil || ok && (refusal.Reason == providers.ReasonStale || refusal.Reason == providers.ReasonEarly)
}
