package config

import (
	"slices"

	"github.com/oncegate/oncegate/providers"
)

// Provider returns a provider of the configuration or of the catalog, or nil.
func (r *reader) Provider(name string) *providers.Provider {
	if p := r.cfg.Providers[name]; p != nil {
		return p
	}
	return r.catalog.Provider(name)
}

// Names returns the names of the providers that a source can have.
func (r *reader) Names() []string { return slices.Concat(r.catalog.Names(), r.cfg.Providers.Names()) }

// known suggests a provider with a similar name. There are too many providers to list them all.
func (r *reader) known(name string) string {
	return providers.DidYouMean(r, name) + "`oncegate providers list` shows the known ones"
}
