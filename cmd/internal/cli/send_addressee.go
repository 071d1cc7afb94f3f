package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

// addressee is the destination of a delivery and the secret that signs it.
type addressee struct {
	provider *providers.Provider
	source   string // the name of the source, if it is known
	url      string
	secret   providers.Secret

	// signedURL is the address that the signature covers, for providers that sign one. It is empty
	// if it is url.
	signedURL string
}

// addressee returns the destination of a delivery. name is a provider or a source.
func (s *shell) addressee(name string, f sendFlags) (*addressee, error) {
	state, running := s.readDevState()
	switch {
	case running && s.toDev(state, f):
		return s.running(name, f, state)
	case f.source != "":
		cfg, err := s.load()
		if err != nil {
			return nil, err
		}
		source, err := findSource(cfg, f.source, name)
		if err != nil {
			return nil, err
		}
		return s.toSource(source, f, loopback(cfg.Listen.Public))
	case f.url == "":
		return s.served(name, f)
	}
	return s.elsewhere(name, f)
}

// toDev reports whether a delivery goes to the running `oncegate dev`: unless --url names another
// address, --source another source, or --config another configuration.
func (s *shell) toDev(state devState, f sendFlags) bool {
	if f.url != "" {
		return strings.HasPrefix(f.url, state.Public+"/")
	}
	if f.source != "" && !slices.ContainsFunc(state.Sources, func(d devSource) bool { return d.Name == f.source }) {
		return false
	}
	return s.configFile == "" || state.Config != "" && sameFile(s.configFile, state.Config)
}

// running returns the addressee for a source of the running `oncegate dev`, from the same
// configuration.
func (s *shell) running(name string, f sendFlags, state devState) (*addressee, error) {
	cfg, err := s.runningConfig(state)
	if err != nil && f.secretEnv+f.secretFile == "" {
		return nil, unreadableDev(err)
	}
	if err != nil {
		f.url = cmp.Or(f.url, state.Public+"/in/"+cmp.Or(f.source, name))
		return s.elsewhere(name, f)
	}
	source, err := chooseSource(cfg, name, f.source)
	if err != nil {
		if f.url != "" && f.secretEnv+f.secretFile != "" {
			return s.elsewhere(name, f)
		}
		return nil, err
	}
	if f.secretEnv+f.secretFile == "" {
		if err := state.sameSecret(source); err != nil {
			return nil, err
		}
	}
	return s.toSource(source, f, state.Public)
}

// unreadableDev says that the configuration of the running `oncegate dev` cannot be read here.
func unreadableDev(err error) error {
	return usagef("the running `oncegate dev` has a configuration that this terminal cannot read (%s): set the same variables here, or add --secret-env NAME", oneLine(firstLine(err.Error())))
}

// sameSecret returns an error if the running `oncegate dev` has the secret of the source from another
// place than this command.
func (d *devState) sameSecret(source *config.Source) error {
	at := slices.IndexFunc(d.Sources, func(known devSource) bool { return known.Name == source.Name })
	if at < 0 || d.Sources[at].Secret == secretPlace(source) {
		return nil
	}
	return usagef("the running `oncegate dev` verifies %s with %s, and here it would be %s: set the same variables in this terminal, or add --secret-env NAME",
		clean(source.Name), clean(d.Sources[at].Secret), clean(secretPlace(source)))
}

// errNowhere is for a delivery without an address.
var errNowhere = usagef("no --url, and no `oncegate dev` runs from this directory: start ./scripts/run, or name an address")

// unconfigured reports whether there is no configuration that could name a source.
func (s *shell) unconfigured() bool {
	_, none := os.Stat(config.DefaultFile)
	return none != nil && s.configFile+s.env("ONCEGATE_CONFIG")+s.env("ONCEGATE_SOURCE_PROVIDER") == ""
}

// served returns the addressee for a source of the configuration that a server on this machine has.
func (s *shell) served(name string, f sendFlags) (*addressee, error) {
	if s.unconfigured() {
		if err := checkProvider(name); err != nil {
			return nil, err
		}
		return nil, errNowhere
	}
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	source, err := chooseSource(cfg, name, f.source)
	if err != nil {
		return nil, err
	}
	return s.toSource(source, f, loopback(cfg.Listen.Public))
}

// checkProvider returns an error if the catalogue has no provider of the name.
func checkProvider(name string) error {
	cat := new(catalog.Lazy)
	if cat.Provider(name) == nil {
		return unknownProvider(name, cat)
	}
	return nil
}

// chooseSource returns the source that --source names, else the one with the name, else the only
// one of the provider.
func chooseSource(cfg *config.Config, name, source string) (*config.Source, error) {
	if source != "" {
		return findSource(cfg, source, name)
	}
	var known, of []string
	var found *config.Source
	for _, candidate := range cfg.Sources {
		if candidate.Name == name {
			return candidate, nil
		}
		known = append(known, candidate.Name)
		if candidate.Provider.Name() == name {
			of, found = append(of, candidate.Name), candidate
		}
	}
	switch {
	case len(of) == 1:
		return found, nil
	case len(of) > 1:
		return nil, usagef("the sources %s are of provider %s: say which, such as `oncegate send %s`", strings.Join(of, ", "), clean(name), of[0])
	}
	cat := new(catalog.Lazy)
	if _, custom := cfg.Providers[name]; !custom && cat.Provider(name) == nil && yamltree.DidYouMean(known, name) == "" {
		return nil, unknownProvider(name, cat)
	}
	return nil, errorf(errorcode.UnknownSource, "no source is called %q or of that provider; %sthe sources are %s", clean(name), yamltree.DidYouMean(known, name), strings.Join(known, ", "))
}

// toSource returns the addressee for a source that takes deliveries at a base address.
func (s *shell) toSource(source *config.Source, f sendFlags, base string) (*addressee, error) {
	if !source.OverHTTP() {
		return nil, usagef("source %s takes nothing over HTTP: publish a message to its broker", source.Name)
	}
	if source.Provider.IsOperation() {
		return nil, usagef("source %s takes operations, not webhooks: `oncegate call %s` makes one", source.Name, source.Name)
	}
	bound, err := source.Provider.Bind(providers.Binding{Settings: source.Values()})
	if err != nil {
		return nil, usagef("%s", oneLine(err.Error()))
	}
	to := &addressee{provider: bound, source: source.Name, url: cmp.Or(f.url, base+"/in/"+source.Name), signedURL: source.ExternalURL}
	if err := checkSendURL(to.url, source.Name); err != nil {
		return nil, err
	}
	if keys := source.Keys(); len(keys) > 0 {
		to.secret = keys[0]
	}
	// A source that verifies with a public key has no secret that could sign.
	given, err := s.givenSecret(f.secretEnv, f.secretFile)
	if err != nil {
		return nil, err
	}
	if given != "" {
		to.secret = providers.Secret{Name: "send", Value: []byte(given)}
	}
	return to, nil
}

// elsewhere returns the addressee at the address that --url names, with the secret that the flags
// name.
func (s *shell) elsewhere(name string, f sendFlags) (*addressee, error) {
	cat := new(catalog.Lazy)
	to := &addressee{provider: cat.Provider(name), url: f.url}
	if to.provider == nil {
		return nil, unknownProvider(name, cat)
	}
	if err := checkSendURL(to.url, name); err != nil {
		return nil, err
	}
	secret, err := s.givenSecret(f.secretEnv, f.secretFile)
	if err != nil {
		return nil, err
	}
	if secret == "" {
		return nil, errorf(errorcode.SecretMissing, "no secret to sign with: add --secret-env NAME, --secret-file PATH or --source NAME")
	}
	to.secret = providers.Secret{Name: "send", Value: []byte(secret)}
	return to, nil
}

func checkSendURL(address, name string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return usagef("--url %q is not an address such as http://127.0.0.1:8080/in/%s", cleanURL(address), clean(name))
	}
	return nil
}

// loopback returns the address at which this machine reaches a listener.
func loopback(listen string) string {
	host, port, _ := strings.Cut(listen, ":")
	if i := strings.LastIndexByte(listen, ':'); i >= 0 {
		host, port = listen[:i], listen[i+1:]
	}
	if host == "" || host == "0.0.0.0" || host == "[::]" {
		host = "127.0.0.1"
	}
	return fmt.Sprintf("http://%s:%s", host, port)
}
