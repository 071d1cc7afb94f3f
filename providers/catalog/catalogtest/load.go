// Package catalogtest provides the catalogue of providers to tests.
package catalogtest

import (
	"maps"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

// shared is the parsed catalogue. Parsing takes a fifth of a second under the race detector, and
// hundreds of tests need it.
var shared = sync.OnceValues(catalog.Load)

// Load is [catalog.Load] for tests. The test program parses the catalogue once, because providers
// do not change. Each test gets its own copy of the map and may change it.
func Load(tb testing.TB) providers.Map {
	tb.Helper()
	all, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return maps.Clone(all)
}
