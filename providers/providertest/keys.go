package providertest

import (
	"errors"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/scheme"
)

// Keys is a fetcher that answers from a vector's documents. Like the real fetcher, it returns an
// error for an address that the provider does not allow.
type Keys map[string]string

var errReached = errors.New("an address that is not allowed was asked for")

// Fetch returns the document of an address.
func (k Keys) Fetch(want scheme.KeyRequest) ([]byte, error) {
	if !scheme.Allowed(want.URL, want.Hosts) {
		return nil, errReached
	}
	name := want.URL
	if len(want.Body) > 0 {
		name += "\n" + string(want.Body)
	}
	text, ok := k[name]
	if !ok {
		return nil, scheme.ErrNoKey
	}
	return []byte(text), nil
}

// Bind returns the provider with the settings and keys of a vector.
func (v *Vector) Bind(p *providers.Provider) (*providers.Provider, error) {
	return p.Bind(providers.Binding{Settings: v.Settings, Fetcher: Keys(v.Keys)})
}
