// Package catalogtest gives tests the catalogue of providers.
package catalogtest

import (
	"maps"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

// Under the race detector the catalogue takes a fifth of a second to read, and hundreds of tests want it.
var shared = sync.OnceValues(catalog.Load)

// Load is [catalog.Load] for a test, which the whole test program reads once: providers do not
// change. The map is the test's own, and may.
func Load(tb testing.TB) map[string]*providers.Provider {
	tb.Helper()
	all, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return maps.Clone(all)
}
