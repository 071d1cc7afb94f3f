// Package draft writes a provider for a sender that the catalogue does not know, from one captured
// request and the secret of its subscription. It collects every value of the request that can be a
// signature, tries the signing methods that senders are known to use, and keeps those with which
// the request verifies. It guesses the event's id, type and time from the names and shapes of
// members.
//
// No result contains the secret.
package draft

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// Options describes what the operator knows about the sender. Secret, which may be a public key, is
// required.
type Options struct {
	// Name is the provider's name in the YAML. If it is empty, Make derives a name from the
	// request's headers.
	Name string

	// SecretName is the environment variable that the YAML names as the source of the secret.
	SecretName string

	// Secret is the secret as the sender shows it, or a public key: PEM, or 32 bytes in hex or
	// base64.
	Secret []byte

	// Others contains further requests of the same sender, whose order does not matter. Two that are
	// tries of one event show which members the sender changes between tries.
	Others []*providers.Request

	// Catalog contains the known providers, with which the request is compared. It may be empty.
	Catalog map[string]*providers.Provider

	// Continue reports whether the search should continue. The search calls it from time to time
	// with the number of combinations tried and an estimate of their total. If it is nil, the
	// search tries everything.
	Continue func(tried, total int64) bool
}

// Result is the outcome of a draft.
type Result struct {
	// Name is the provider's name in the YAML.
	Name string

	// Looks lists the providers of the catalogue that the request probably came from, the likeliest
	// first.
	Looks []Look

	// Fits lists the signing methods with which the request verifies, the safest first. The YAML
	// uses the first.
	Fits []Fit

	// Near lists methods with which the request verifies but for which no provider can be written,
	// or only after the secret is rewritten. Each entry says what the operator should do.
	Near []string

	// Guesses lists the members taken for id, type, time and sequence, with the reasons.
	Guesses []Guess

	// Tried describes how far the search got.
	Tried Tried

	// YAML is a configuration with the provider and one source. It is empty if no method fits.
	YAML string

	// Provider is the drafted provider. It is nil if no method fits.
	Provider *providers.Provider
}

// Look is a provider of the catalogue that resembles the request's sender.
type Look struct {
	Name string `json:"name"`
	// Verified is true if the request verifies with this provider.
	Verified bool `json:"verified"`
	// Why names the headers that the request and the provider have in common.
	Why string `json:"why"`
}

// Fit is a signing method with which the request verifies.
type Fit struct {
	// Text names in one line the signed parts, the key, and the place of the signature.
	Text string `json:"text"`
	// Covers is body, part or origin: how much of the request the signature proves.
	Covers string `json:"covers"`
	// SignsTime is true if the signature covers a time.
	SignsTime bool `json:"signs_time"`
	// Notes lists warnings for the operator about this method.
	Notes []string `json:"notes,omitempty"`

	address bool   // the signature covers the request's address
	time    string // the header that contains the signed time
	verify  string // the verify section of the YAML, without indentation
	extends string
	covered map[string]bool // the headers that the signature covers
	score   int
}

// Guess is a member of the request that the draft takes for the id, type, time or sequence.
type Guess struct {
	// What is id, type, time or sequence.
	What string `json:"what"`
	// Where names the member, such as JSON event_id. It is empty if no member was found.
	Where string `json:"where,omitempty"`
	// Sure is likely, a guess or none.
	Sure string `json:"sure"`
	Why  string `json:"why"`
}

// Tried describes how far the search got.
type Tried struct {
	Combinations int64    `json:"combinations"`
	Carriers     []string `json:"carriers"`
	Keys         []string `json:"keys"`
	Forms        []string `json:"forms"`
	// Cut is true if Continue ended the search before it tried everything.
	Cut bool `json:"cut"`
}

// Make drafts a provider from a captured request. It returns an error only for bad options. If no
// method fits, Fits is empty and Tried says what the search tried.
func Make(req *providers.Request, o Options) (*Result, error) {
	if len(strings.TrimSpace(string(o.Secret))) == 0 {
		return nil, errors.New("drafting a provider: the secret is empty")
	}
	c := capture(req)
	c.compare(o.Others)
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
			continue // the match is a coincidence, or a provider cannot express it
		}
		out.Fits = append(out.Fits, fits[i])
		if out.Provider == nil {
			for n, other := range o.Others {
				if !authentic(p, other, []providers.Secret{{Name: "draft", Value: o.Secret}}) {
					out.Near = append(out.Near, fmt.Sprintf("request %d does not verify in the same way: was it captured unchanged, and signed with the same secret?", n+2))
				}
			}
			out.Provider, out.Guesses = p, guesses
			out.YAML = configuration(out.Name, text, c, &fits[i], o)
		}
		if base := fits[i].extends; base != "" && !slices.ContainsFunc(out.Looks, func(l Look) bool { return l.Name == base }) {
			out.Looks = append(out.Looks, Look{Name: base, Verified: true, Why: "a way of signing that only this provider has"})
		}
	}
	return out, nil
}

// confirm parses the draft as a configuration would. It requires that the request verifies with the
// draft, and that it fails with another secret or, if the method covers the body, with another
// body.
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

// authentic reports whether the request's signature is valid. It ignores the age of the signature.
func authentic(p *providers.Provider, req *providers.Request, secrets []providers.Secret) bool {
	_, err := p.Verify(req, secrets)
	refusal, ok := errors.AsType[*providers.Refusal](err)
	return err == nil || ok && (refusal.Reason == providers.ReasonStale || refusal.Reason == providers.ReasonEarly)
}
