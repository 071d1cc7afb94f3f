package providers_test

import (
	"bytes"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// TestTreeReadsBack checks that the tree of a provider, parsed as a file, is the same provider.
func TestTreeReadsBack(t *testing.T) {
	t.Parallel()
	cat := catalogtest.Load(t)
	for name, p := range cat {
		text, err := yaml.Marshal(p.Spec().Tree())
		if err != nil {
			t.Fatal(err)
		}
		again, err := providers.ParseOver(name, text, cat)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		back, err := yaml.Marshal(again.Spec().Tree())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back, text) {
			t.Errorf("%s: read back as\n%s\nwant\n%s", name, back, text)
		}
	}
}
