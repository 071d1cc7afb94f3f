package providertest_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// inventedTypes are the types of test data that no sender has: of requests that independent implementations signed.
var inventedTypes = []string{"crosscheck.made"}

// The list of a sender's types has every type that its published payloads, its signed requests and the example have. Without one
// of them, the list is not complete, and a configuration would be warned for nothing.
func TestListsOfTypesAreComplete(t *testing.T) {
	t.Parallel()
	listed := 0
	for name, p := range catalogtest.Load(t) {
		known := p.Spec().Types.Known
		if len(known) == 0 {
			continue
		}
		listed++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !slices.IsSortedFunc(known, strings.Compare) {
				t.Error("the list is not sorted: nobody finds anything in it")
			}
			for _, req := range deliveries(t, name, p) {
				for _, item := range p.Inspect(req).Items {
					if item.Unusable != "" || item.Type == "unknown" || slices.Contains(inventedTypes, item.Type) {
						continue
					}
					if !slices.ContainsFunc(known, func(pattern string) bool { ok, _ := path.Match(pattern, item.Type); return ok }) {
						t.Errorf("the list lacks %q", item.Type)
					}
				}
			}
		})
	}
	if listed < 40 {
		t.Errorf("%d lists of types, want those of at least 40 senders", listed)
	}
}
