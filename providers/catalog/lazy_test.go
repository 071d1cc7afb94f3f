package catalog_test

import (
	"reflect"
	"testing"

	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// A provider that is parsed when it is asked for is the one that Load returns, whichever was asked
// for before.
func TestLazy(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	names := new(catalog.Lazy).Names()
	if len(names) != len(all) {
		t.Fatalf("%d names of %d providers", len(names), len(all))
	}
	shared := new(catalog.Lazy)
	for _, name := range names {
		alone, again := new(catalog.Lazy).Provider(name), shared.Provider(name)
		if alone == nil || again == nil {
			t.Fatalf("%s is not in the catalogue", name)
		}
		if !reflect.DeepEqual(alone.Spec(), all[name].Spec()) || !reflect.DeepEqual(again.Spec(), all[name].Spec()) || again != shared.Provider(name) {
			t.Errorf("%s is not the same", name)
		}
	}
	for _, unknown := range []string{"", "strpie", "../stripe", "schema"} {
		if shared.Provider(unknown) != nil {
			t.Errorf("there is a provider %q", unknown)
		}
	}
}
