package cli

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// setup is what `oncegate init` writes and explains.
type setup struct {
	path       string
	sources    []setupSource
	forward    string
	idempotent bool
	assumed    bool // --idempotent is missing
	sql        string
	public     string // without a slash at its end; empty if it is not known

	// unset are the references of the file that lead to nothing yet.
	unset []string
}

// setupSource is a source with the references to its secrets.
type setupSource struct {
	name     string
	provider *providers.Provider
	secrets  []setupSecret
	settings []setupSetting
}

// setupSecret is a reference to a secret. A name belongs to a handshake or a credential.
type setupSecret struct{ reference, name string }

// setupSetting is a setting with its values, or a reference to it.
type setupSetting struct {
	spec   *providers.SettingSpec
	values []string
}

// newSetup checks what was asked for.
func newSetup(cat providers.Catalog, f initFlags) (*setup, error) {
	out := &setup{path: f.file, sql: f.sql}
	var err error
	if out.public, err = publicAddress(f.publicURL); err != nil {
		return nil, err
	}
	if err := out.target(f); err != nil {
		return nil, err
	}
	given, err := givenSettings(f)
	if err != nil {
		return nil, err
	}
	for _, name := range f.providers {
		if slices.ContainsFunc(out.sources, func(s setupSource) bool { return s.name == name }) {
			return nil, usagef("--provider %s is there twice: write the second source into the file, under another name", clean(name))
		}
		source, err := newSetupSource(cat, name, given[name], f.secretIn)
		if err != nil {
			return nil, err
		}
		out.sources = append(out.sources, *source)
		delete(given, name)
	}
	for name := range given {
		return nil, usagef("--setting %s.%s: %s is not among the providers", clean(name), clean(firstKey(given[name])), clean(name))
	}
	return out, nil
}

func newSetupSource(cat providers.Catalog, name string, given map[string][]string, directory string) (*setupSource, error) {
	p := cat.Provider(name)
	switch {
	case p == nil:
		return nil, unknownProvider(name, cat)
	case p.IsMessage():
		return nil, usagef("%s is for sources that consume from a broker, which init does not set up: docs/guides/from-a-broker.md shows how", clean(name))
	}
	out := &setupSource{name: name, provider: p}
	bind := map[string][]string{}
	var missing []string
	specs := p.Spec().Settings
	for i := range specs {
		spec := &specs[i]
		values := given[spec.Name]
		delete(given, spec.Name)
		switch {
		case len(values) == 0 && !spec.Required:
			continue
		case len(values) == 0 && spec.Secret:
			values = []string{reference(directory, name, spec.Name)}
		case len(values) == 0:
			missing = append(missing, missingSetting(name, spec))
			continue
		case spec.Secret && !strings.HasPrefix(values[0], "env:") && !strings.HasPrefix(values[0], "file:"):
			return nil, usagef("--setting %s.%s is a secret: name where it is, env:NAME or file:PATH", name, spec.Name)
		}
		bind[spec.Name] = values
		out.settings = append(out.settings, setupSetting{spec, values})
	}
	if len(given) > 0 {
		var known []string
		for i := range specs {
			known = append(known, specs[i].Name)
		}
		unknown := firstKey(given)
		if len(known) == 0 {
			return nil, usagef("--setting %s.%s: %s has no settings", name, clean(unknown), name)
		}
		return nil, usagef("--setting %s.%s is unknown; %sknown are %s", name, clean(unknown), yamltree.DidYouMean(known, unknown), strings.Join(known, ", "))
	}
	if len(missing) > 0 {
		return nil, usagef("%s needs more than a secret: add %s", name, strings.Join(missing, " and "))
	}
	out.addSecrets(bind, directory)
	return out, nil
}

// missingSetting says how to give a setting.
func missingSetting(provider string, spec *providers.SettingSpec) string {
	example := "VALUE"
	if len(spec.Example) > 0 {
		example = spec.Example[0]
	}
	return "--setting " + provider + "." + spec.Name + "=" + example + " (" + spec.About + ")"
}

// addSecrets adds a reference for each secret that the source needs.
func (s *setupSource) addSecrets(settings map[string][]string, directory string) {
	p := s.provider
	// Bind fails if a setting is a reference, which is not read here. Whether a secret is needed
	// does not depend on such a setting.
	if bound, err := p.Bind(providers.Binding{Settings: settings}); err == nil {
		p = bound
	}
	if p.CheckSecrets(nil) == nil {
		return
	}
	first := setupSecret{reference: reference(directory, s.name, "secret")}
	if p.IsOperation() {
		first.name = "caller"
	}
	s.secrets = append(s.secrets, first)
	handshakes := p.Spec().Handshakes
	for i := range handshakes {
		of := handshakes[i].SecretName
		if of != "" && !slices.ContainsFunc(s.secrets, func(have setupSecret) bool { return have.name == of }) {
			s.secrets = append(s.secrets, setupSecret{reference(directory, s.name, of), of})
		}
	}
}

// reference returns where a secret of a source is: a variable such as STRIPE_SECRET, or a file in
// the directory.
func reference(directory, source, what string) string {
	if directory != "" {
		return "file:" + path.Join(directory, source+"-"+strings.ReplaceAll(what, "_", "-"))
	}
	return "env:" + strings.ToUpper(strings.ReplaceAll(source+"_"+what, "-", "_"))
}

// target checks where events go.
func (o *setup) target(f initFlags) error {
	switch f.idempotent {
	case "", "true", "false":
	default:
		return usagef("--idempotent %q is neither true nor false", clean(f.idempotent))
	}
	if f.forward == "" && f.idempotent != "" {
		return usagef("--idempotent is for --forward: say where events are sent")
	}
	o.idempotent, o.assumed = f.idempotent == "true", f.forward != "" && f.idempotent == ""
	if strings.ContainsAny(f.sql, " \t\n;()'\"") {
		return usagef("--sql %q is not the name of a function such as ledger.apply_event", clean(f.sql))
	}
	if strings.HasPrefix(f.forward, "env:") || strings.HasPrefix(f.forward, "file:") {
		o.forward = f.forward
		return nil
	}
	if f.forward == "" {
		return nil
	}
	u, err := parseHTTP(f.forward)
	switch {
	case err != nil:
		return usagef("--forward %q is not an address such as https://billing.example/hooks", cleanURL(f.forward))
	case config.RedactURL(f.forward) != f.forward:
		return usagef("--forward %q has a credential in it, and secrets stay out of the file: put the address into a variable and write --forward env:NAME", cleanURL(f.forward))
	case u.Fragment != "":
		return usagef("--forward %q has a fragment (#), which is never sent: leave it out", cleanURL(f.forward))
	}
	o.forward = f.forward
	return nil
}

// publicAddress checks the address at which senders reach the server.
func publicAddress(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := parseHTTP(text)
	if err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", usagef("--public-url %q is not an address such as https://hooks.example.com", cleanURL(text))
	}
	return strings.TrimRight(text, "/"), nil
}

func parseHTTP(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(text, " \t\n\"\\") {
		return nil, usagef("%q is not an address", cleanURL(text))
	}
	return u, nil
}

// address returns the address to register with the sender of a source.
func (o *setup) address(source string) string {
	if o.public == "" {
		return "https://<your host>/in/" + source
	}
	return o.public + "/in/" + source
}

// givenSettings returns the values of --setting by provider and name.
func givenSettings(f initFlags) (map[string]map[string][]string, error) {
	out := map[string]map[string][]string{}
	for _, text := range f.settings {
		name, value, found := strings.Cut(text, "=")
		provider, setting, dotted := strings.Cut(name, ".")
		if !found || !dotted || provider == "" || setting == "" || value == "" {
			return nil, usagef("--setting %q is not of the form PROVIDER.NAME=VALUE", clean(name))
		}
		if out[provider] == nil {
			out[provider] = map[string][]string{}
		}
		out[provider][setting] = append(out[provider][setting], value)
	}
	return out, nil
}

// firstKey returns the first key in alphabetical order.
func firstKey(m map[string][]string) string {
	first := ""
	for key := range m {
		if first == "" || key < first {
			first = key
		}
	}
	return first
}
