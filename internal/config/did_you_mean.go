package config

import "github.com/oncegate/oncegate/providers"

// known says which provider may have been meant. There are too many to list.
func known(all map[string]*providers.Provider, name string) string {
	return providers.DidYouMean(all, name) + "`oncegate providers list` shows the known ones"
}
