package providers

import (
	"errors"
	"fmt"
	"strings"
)

// CheckSecrets returns an error for secrets with which the provider could not verify: none, more
// than [MaxSecrets], empty ones, and ones that do not decode. For a provider of operations, the
// limit of [MaxSecrets] applies to each credential, and two credentials must not share a value,
// because the value would not identify the caller. The error identifies a secret by its position
// and name, never by its value.
func (p *Provider) CheckSecrets(secrets []Secret) error {
	if p.secretless() && len(secrets) == 0 {
		return nil
	}
	if len(secrets) == 0 {
		return fmt.Errorf("provider %s: needs at least one secret", p.name)
	}
	var errs []error
	if most := p.maxSecrets(); len(secrets) > most {
		errs = append(errs, fmt.Errorf("provider %s: %d secrets, at most %d are tried", p.name, len(secrets), most))
	}
	if p.IsOperation() {
		errs = append(errs, p.checkCredentials(secrets)...)
	}
	keys := 0
	names := make(map[string]bool, len(secrets))
	for i := range secrets {
		s := &secrets[i]
		fail := func(what string) {
			errs = append(errs, fmt.Errorf("provider %s: secret %d (%s) %s", p.name, i+1, s.Name, what))
		}
		if strings.TrimSpace(string(s.Value)) == "" {
			fail("is empty")
			continue
		}
		if p.reserved[s.Name] {
			continue
		}
		keys++
		if err := p.checkAny(s); err != nil {
			fail(err.Error())
		}
		if p.IsOperation() {
			if !operationName.MatchString(s.credentialName()) {
				fail("names a credential: a-z, 0-9, ., _ and -, at most 64")
			}
			// The old and the new secret of a credential share its name during a rotation.
			continue
		}
		if s.Name != "" && names[s.Name] {
			fail("has the name of another")
		}
		names[s.Name] = true
	}
	if keys == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("provider %s: none of the secrets is a key of deliveries", p.name))
	}
	return errors.Join(errs...)
}

// checkAny accepts a secret that is valid in at least one of the provider's modes.
func (p *Provider) checkAny(s *Secret) error {
	err := p.checkSecret(s)
	for i := range p.modes {
		if err == nil {
			return nil
		}
		if p.modes[i].as.checkSecret(s) == nil {
			return nil
		}
	}
	return err
}

func (p *Provider) checkSecret(s *Secret) error {
	switch {
	case p.scheme != nil:
		return p.scheme.Check(s.Value)
	case p.Unproved():
		return errors.New("is not used: nothing proves who sends these requests")
	case p.IsMessage():
		return errors.New("is not used: the connection to the broker proves who sends")
	case p.spec.Verify.signs():
		_, value, err := p.splitKeyID(s.Value)
		if err != nil {
			return err
		}
		var first error
		for i := range p.schemes {
			_, err := p.schemes[i].key(value, p.schemes)
			if err == nil {
				return nil
			}
			if first == nil || errors.Is(first, errOtherScheme) {
				first = err
			}
		}
		if errors.Is(first, errOtherScheme) {
			return errors.New("is a private key; the receiver takes the public one")
		}
		return first
	default:
		for i := range p.spec.Verify.Credential {
			if p.spec.Verify.Credential[i].Scheme == "basic" && len(p.spec.Verify.Credential) == 1 && !strings.Contains(string(s.Value), ":") {
				return errors.New("is not user:password")
			}
		}
	}
	return nil
}
