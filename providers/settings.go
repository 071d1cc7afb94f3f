package providers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	schemes "github.com/oncegate/oncegate/providers/scheme"
)

// Fetcher fetches the keys that some providers publish at an address. Its implementation restricts
// the addresses that it contacts and caches the keys.
type Fetcher = schemes.Fetcher

// Deferral is the error of a verification whose key is unknown and cannot be fetched now. It does
// not mean that the request is forged, so the sender should retry.
type Deferral = schemes.Deferral

// Asker asks a provider about a request, if the signature alone does not prove enough and the
// source's settings require it.
type Asker = schemes.Asker

// Binding contains what a source adds to its provider, apart from the secrets.
type Binding struct {
	// Settings contains the source's values, by the names that the provider declares.
	Settings map[string][]string

	// Fetcher fetches keys. Providers for which [Provider.Fetches] returns true need it.
	Fetcher Fetcher

	// Asker asks the provider. It is required if a setting enables such questions. Without it, such
	// a source verifies nothing.
	Asker Asker
}

// levelValue is the value of a setting that makes every delivery a new event.
const levelValue = "event"

// insecureSetting is the setting with which a source accepts that its provider proves nothing.
const insecureSetting = "insecure"

// Bind returns the provider with the settings of one source. A provider that declares required
// settings verifies nothing before it is bound. The error names every problem.
func (p *Provider) Bind(b Binding) (*Provider, error) {
	settings, err := p.resolveSettings(b.Settings)
	if err != nil {
		return nil, err
	}
	bound := *p
	if setting := p.spec.Identity.LevelSetting; setting != "" && settings.One(setting) == levelValue {
		spec := *p.spec
		spec.Identity = IdentitySpec{Mode: "level"}
		bound = *compile(p.name, &spec)
		bound.base, bound.own = p.base, p.own
	}
	bound.settings, bound.fetcher, bound.asker, bound.bound = settings, b.Fetcher, b.Asker, true
	return &bound, nil
}

// CheckSettings returns an error for settings with which the provider could not verify.
func (p *Provider) CheckSettings(given map[string][]string) error {
	_, err := p.resolveSettings(given)
	return err
}

// Fetches reports whether the provider fetches keys from an address.
func (p *Provider) Fetches() bool {
	return len(p.spec.Verify.Options["hosts"]) > 0
}

// Unproved reports whether the provider proves nothing at all, which its source must explicitly
// allow.
func (p *Provider) Unproved() bool { return p.spec.Verify.Family == familyNone }

// unchecked reports whether nothing in a request proves its sender.
func (p *Provider) unchecked() bool { return p.Unproved() || p.IsMessage() }

// resolveSettings combines options, defaults and the given settings, and checks them.
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
	if setting := p.spec.Identity.LevelSetting; setting != "" && len(out[setting]) > 0 && out.One(setting) != levelValue {
		fail("setting %s is %q; say %s, or leave it out", setting, out.One(setting), levelValue)
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

// ready returns the settings for verification.
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
