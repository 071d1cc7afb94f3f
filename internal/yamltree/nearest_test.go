package yamltree_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

func TestNearestNames(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	for name, want := range map[string][]string{
		"strpie":     {"stripe"},
		"Stripe":     {"stripe"},
		"gitub":      {"github"},
		"paypall":    {"paypal"},
		"zzzzzzzz":   nil,
		"":           nil,
		"git":        {"gitea", "github", "gitlab"},
		"sendgrid":   {"sendgrid-events", "sendgrid-inbound-parse"},
		"bitbuckett": {"bitbucket"},
	} {
		if got := yamltree.Nearest(slices.Collect(maps.Keys(all)), name); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
