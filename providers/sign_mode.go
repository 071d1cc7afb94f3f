package providers

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultMode is the mode of a request whose headers select none of the provider's modes.
const DefaultMode = "default"

// signMode is a way of signing: a mode of the provider, or an alternative place for the proof in
// the default mode.
type signMode struct {
	name   string
	when   []MatchSpec
	verify VerifySpec
}

// signModes returns the default and every other way of signing, in the order of the spec.
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

// Modes returns the names of the ways in which the provider can sign, for [Provider.SignAs]: the
// default first, then its modes, its other credentials and the other headers of its signature.
func (p *Provider) Modes() []string {
	var out []string
	for _, m := range p.signModes() {
		out = append(out, m.name)
	}
	return out
}

// SignAs is [Provider.Sign] with one of [Provider.Modes]. It also sets the headers that select the
// mode. If mode is empty, the request's headers select it.
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
