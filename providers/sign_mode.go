package providers

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultMode is the way in which a provider proves its requests where their
// headers name none of its modes.
const DefaultMode = "default"

// signMode is a way of signing: a mode of the provider, or another of the places
// in which its default puts the proof.
type signMode struct {
	name   string
	when   []MatchSpec
	verify VerifySpec
}

// signModes are the default and every other way, in the order of the spec.
func (p *Provider) signModes() []signMode {
	out := []signMode{{name: DefaultMode, verify: p.spec.Verify}}
	for i := range p.spec.Modes {
		m := &p.spec.Modes[i]
		out = append(out, signMode{m.Name, m.When, m.Verify})
	}
	if p.spec.Verify.Family == familyStatic {
		for _, c := range p.spec.Verify.Credential[1:] {
			verify := p.spec.Verify
			verify.Credential = []CredentialSpec{c}
			out = append(out, signMode{name: c.Scheme, verify: verify})
		}
	}
	if from := p.spec.Verify.Signature.From; p.spec.Verify.signs() && (from == "" || from == "header" || from == "all-headers") {
		for _, name := range p.spec.Verify.Signature.Headers[min(1, len(p.spec.Verify.Signature.Headers)):] {
			verify := p.spec.Verify
			verify.Signature.Headers = []string{name}
			out = append(out, signMode{name: strings.ToLower(name), verify: verify})
		}
	}
	return out
}

// Modes are the names of the ways in which the provider proves its requests, as
// [Provider.SignAs] takes them: the default first, then its modes, the other
// credentials it may send and the other headers its signature may stand in.
func (p *Provider) Modes() []string {
	var out []string
	for _, m := range p.signModes() {
		out = append(out, m.name)
	}
	return out
}

// SignAs is [Provider.Sign] in one of [Provider.Modes]: it also sets the headers
// that tell the mode. An empty mode takes the one that the headers name.
func (p *Provider) SignAs(mode string, req *Request, secret Secret, eventID string) error {
	if mode == "" {
		return p.Sign(req, secret, eventID)
	}
	modes := p.signModes()
	i := slices.IndexFunc(modes, func(m signMode) bool { return m.name == mode })
	if i < 0 {
		return fmt.Errorf("signing as %s: mode %q is unknown; known are %s", p.name, mode, strings.Join(p.Modes(), ", "))
	}
	if req.Header == nil {
		req.Header = make(map[string][]string)
	}
	for _, m := range modes[i].when {
		switch {
		case m.Absent:
			req.Header.Del(m.Header)
		case m.Equals != "":
			req.Header.Set(m.Header, m.Equals)
		}
	}
	spec := *p.spec
	spec.Verify, spec.Modes = modes[i].verify, nil
	as := compile(p.name, &spec)
	as.bound, as.settings, as.fetcher, as.asker, as.recipe = p.bound, p.settings, p.fetcher, p.asker, p.recipe
	return as.Sign(req, secret, eventID)
}
