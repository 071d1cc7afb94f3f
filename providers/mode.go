package providers

// mode is one of the methods with which the provider authenticates its requests.
type mode struct {
	name string
	when []MatchSpec
	as   *Provider // the provider with the mode's verify section
}

func compileModes(name string, spec *Spec) []mode {
	var out []mode
	for i := range spec.Modes {
		other := *spec
		other.Verify, other.Modes = spec.Modes[i].Verify, nil
		out = append(out, mode{name: spec.Modes[i].Name, when: spec.Modes[i].When, as: compile(name, &other)})
	}
	return out
}

// mode returns the provider with the mode that applies to a request. It depends only on the
// request's headers, so a request is never tried with two modes.
func (p *Provider) mode(req *Request) *Provider {
	for i := range p.modes {
		if headersMatch(req, p.modes[i].when) {
			m := *p.modes[i].as
			m.bound, m.settings, m.fetcher, m.asker = p.bound, p.settings, p.fetcher, p.asker
			return &m
		}
	}
	return p
}

// VerifySpec returns the rules that apply to a request: those of a mode, or the provider's own.
func (p *Provider) VerifySpec(req *Request) *VerifySpec { return &p.mode(req).spec.Verify }

// ModeName returns the name of the mode that applies to a request, or [DefaultMode].
func (p *Provider) ModeName(req *Request) string {
	for i := range p.modes {
		if headersMatch(req, p.modes[i].when) {
			return p.modes[i].name
		}
	}
	return DefaultMode
}

func headersMatch(req *Request, when []MatchSpec) bool {
	for _, m := range when {
		value, name, err := header(req, []string{m.Header})
		present := err == nil && name != ""
		if present == m.Absent || !m.Absent && m.Equals != "" && value != m.Equals {
			return false
		}
	}
	return true
}

// required refuses a request without the headers that the provider always sends.
func (p *Provider) required(req *Request) *Refusal {
	for i := range p.spec.Verify.Require {
		m := p.spec.Verify.Require[i : i+1]
		if !headersMatch(req, m) {
			return refuse(ReasonMalformed, "header "+m[0].Header+" is not as the provider sends it")
		}
	}
	return nil
}

// reservedSecrets returns the names of secrets that only handshakes use.
func reservedSecrets(s *Spec) map[string]bool {
	var out map[string]bool
	for i := range s.Handshakes {
		if name := s.Handshakes[i].SecretName; name != "" {
			if out == nil {
				out = map[string]bool{}
			}
			out[name] = true
		}
	}
	return out
}

// keys returns the secrets without those that only handshakes use.
func (p *Provider) keys(secrets []Secret) []Secret {
	if len(p.reserved) == 0 {
		return secrets
	}
	out := make([]Secret, 0, len(secrets))
	for i := range secrets {
		if !p.reserved[secrets[i].Name] {
			out = append(out, secrets[i])
		}
	}
	return out
}
