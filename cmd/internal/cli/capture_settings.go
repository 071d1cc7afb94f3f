package cli

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/scheme"
)

// keyFiles contains keys from files, by the address from which a server would fetch them. The
// command line fetches nothing.
type keyFiles map[string][]byte

// Fetch returns the content of the file.
func (k keyFiles) Fetch(want scheme.KeyRequest) ([]byte, error) {
	if content, ok := k[want.URL]; ok {
		return content, nil
	}
	address := want.URL
	if u, err := url.Parse(address); err == nil {
		u.RawQuery = ""
		address = u.String()
	}
	return nil, fmt.Errorf("the provider publishes its keys: download %s and add --key %s=FILE", clean(address), clean(address))
}

// errAsked is returned for a request that passes every check that is possible without the provider.
var errAsked = errors.New("the signature is right; whether the provider sent it, it is asked by the server alone (setting postback)")

// Ask always returns errAsked, because the command line contacts no provider.
func (keyFiles) Ask(*scheme.Question) ([]byte, error) { return nil, errAsked }

// bind returns the provider with the settings and keys from the command line.
func (s *shell) bind(p *providers.Provider, f *captureFlags) (*providers.Provider, error) {
	settings := map[string][]string{}
	for _, text := range f.settings {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usagef("--setting %q is not of the form NAME=VALUE", clean(text))
		}
		settings[name] = append(settings[name], value)
	}
	keys, err := s.keyFiles(f)
	if err != nil {
		return nil, err
	}
	bound, err := p.Bind(providers.Binding{Settings: settings, Fetcher: keys, Asker: keys})
	if err != nil {
		return nil, usagef("%s; give it with --setting NAME=VALUE", oneLine(err.Error()))
	}
	return bound, nil
}

// keyFiles reads the key files that the command line names.
func (s *shell) keyFiles(f *captureFlags) (keyFiles, error) {
	keys := keyFiles{}
	for _, text := range f.keys {
		i := strings.LastIndexByte(text, '=')
		if i <= 0 || !strings.HasPrefix(text, "https://") {
			return nil, usagef("--key %q is not of the form https://ADDRESS=FILE", cleanURL(text))
		}
		content, err := s.readFile("--key", text[i+1:])
		if err != nil {
			return nil, err
		}
		keys[text[:i]] = content
	}
	return keys, nil
}
