package control_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers/catalog"
)

// Two test deliveries have two bodies, because the same body under two ids is what a replay attack sends. A delivery that is made
// again with its id and its time has the same body.
func TestExampleDeliveriesDiffer(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, name := range []string{"github", "stripe", "standard-webhooks", "shopify", "gitlab"} {
		p := new(catalog.Lazy).Provider(name)
		_, one := control.ExampleDelivery(p, "first", at)
		_, same := control.ExampleDelivery(p, "first", at)
		_, other := control.ExampleDelivery(p, "second", at)
		if !json.Valid(one) || !bytes.Equal(one, same) || bytes.Equal(one, other) {
			t.Errorf("%s: %s, again %s, of another id %s", name, one, same, other)
		}
	}
}
