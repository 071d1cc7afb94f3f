package config

import "github.com/oncegate/oncegate/providers"

// known suggests a provider with a similar name. There are too many providers to list them all.
func known(all map[string]*providers.Provider, name string) string {
	return providers.DidYouMean(all, name) + "`oncegate providers list` shows the known ones"
}
