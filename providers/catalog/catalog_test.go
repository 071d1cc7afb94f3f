package catalog_test

import (
	"testing"

	"github.com/oncegate/oncegate/providers/catalog"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	names, err := catalog.Names()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(loaded) || len(names) < 8 {
		t.Errorf("loaded %d of %v", len(loaded), names)
	}
	for name, p := range loaded {
		if p.Name() != name || p.Spec().Title == "" || p.Spec().Docs == "" || p.Spec().Example.Body == "" {
			t.Errorf("%s lacks a title, a docs link or an example", name)
		}
	}
}
