package providers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	schemes "github.com/oncegate/oncegate/providers/scheme"
)

// Fetcher gets the keys that some providers publish at an address. Its
// implementation guards what may be reached and caches what it got.
type Fetcher = schemes.Fetcher

// Deferral is the error of a verification whose key is not known and cannot be asked
// for now. It says nothing about the request: whoever sent it is to come again.
type Deferral = schemes.Deferral

// Asker asks a provider about a request, where a signature alone says too little
// and the source wants it.
type Asker = schemes.Asker

// Binding is what a source adds to its provider, beside the secrets.
type Binding struct {
	// Settings are the values of the source, by the names that the provider
	// declares.
	Settings map[string][]string

	// Fetcher gets keys; it is needed by the providers for which [Provider.Fetches]
	// holds.
	Fetcher Fetcher

	// Asker asks the provider; it is needed where a setting wants that. Without it,
	// such a source verifies nothing.
	Asker Asker
}

// insecureSetting is what a source says whose provider proves nothing.
const insecureSetting = "insecure"

// Bind returns the provider with the settings of one source. A provider that
// declares required settings verifies nothing before it is bound. The error
// names every problem.
func (p *Provider) Bind(b Binding) (*Provider, error) {
	settings, err := p.resolveSettings(b.Settings)
	if err != nil {
		return nil, err
	}
	bound := *p
	bound.settings, bound.fetcher, bound.asker, bound.bound = settings, b.Fetcher, b.Asker, true
	return &bound, nil
}

// CheckSettings refuses settings with which the provider could not verify.
func (p *Provider) CheckSettings(given map[string][]string) error {
	_, err := p.resolveSettings(given)
	return err
}

// Fetches reports whether the provider gets keys from an address.
func (p *Provider) Fetches() bool {
	return len(p.spec.Verify.Options["hosts"]) > 0
}

// Unproved reports whether the provider proves nothing at all, which its source
// must have asked for.
func (p *Provider) Unproved() bool { return p.spec.Verify.Family == familyNone }

// resolveSettings puts together options, defaults and what is given, and checks them.
func (p *Provider) resolveSettings(given map[string][]string) (schemes.Settings, error) {
	out := schemes.Settings{}
	maps.Copy(out, p.spec.Verify.Options)
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("provider %s: "+format, append([]any{p.name}, args...)...))
	}
	var known []string
	for i := range p.spec.Settings {
		s := &p.spec.Settings[i]
		known = append(known, s.Name)
		values := given[s.Name]
		if len(values) == 0 {
			values = s.Default
		}
		switch {
		case slices.Contains(values, ""):
			fail("setting %s has an empty value", s.Name)
		case len(values) > 0:
			out[s.Name] = values
		case s.Required:
			fail("setting %s is missing: %s", s.Name, s.About)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(known, name):
		case len(known) == 0:
			fail("setting %s is unknown; the provider takes none", name)
		default:
			fail("setting %s is unknown; known are %s", name, strings.Join(known, ", "))
		}
	}
	if len(errs) == 0 && p.Unproved() && out.One(insecureSetting) != "true" {
		fail("setting %s must be true: nothing proves who sends these requests", insecureSetting)
	}
	if len(errs) == 0 && p.scheme != nil {
		if err := p.scheme.Prepare(out); err != nil {
			fail("%w", err)
		}
	}
	return out, errors.Join(errs...)
}

// ready gives the settings to verify with.
func (p *Provider) ready() (schemes.Settings, error) {
	if p.bound {
		return p.settings, nil
	}
	settings, err := p.resolveSettings(nil)
	if err != nil {
		return nil, fmt.Errorf("verifying without settings: %w", err)
	}
	return settings, nil
}
