package catalog_test

import (
	"testing"

	"github.com/oncegate/oncegate/providers/catalog"
)

// TestAliases requires that every alias leads to an entry, is no entry itself, and stands once.
func TestAliases(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range catalog.Aliases() {
		if loaded[a.Use] == nil {
			t.Errorf("%s leads to %q, which is not in the catalogue", a.Name, a.Use)
		}
		if loaded[a.Name] != nil || seen[a.Name] {
			t.Errorf("%s is an entry, or stands twice", a.Name)
		}
		if a.Use == "token" && a.Why == "" {
			t.Errorf("%s leads to token without a reason", a.Name)
		}
		seen[a.Name] = true
	}
	for _, name := range []string{"Authorize.Net", "authorize_net", "authorizenet"} {
		if a, ok := catalog.FindAlias(name); !ok || a.Use != "authorize-net" {
			t.Errorf("%s leads to %+v", name, a)
		}
	}
	if _, ok := catalog.FindAlias("acme"); ok {
		t.Error("acme leads somewhere")
	}
}
