package delivery_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/delivery"
	"github.com/oncegate/oncegate/providers/catalog"
)

// Two test deliveries have two bodies, because the same body under two ids is what a replay attack sends. A delivery that is made
// again with its id and its time has the same body.
func TestExampleDeliveriesDiffer(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, name := range []string{"github", "stripe", "standard-webhooks", "shopify", "gitlab"} {
		p := new(catalog.Lazy).Provider(name)
		body := func(id string) []byte {
			d, err := delivery.New(p, delivery.Options{EventID: id, At: at})
			if err != nil {
				t.Fatal(err)
			}
			return d.Body
		}
		one, same, other := body("first"), body("first"), body("second")
		if !json.Valid(one) || !bytes.Equal(one, same) || bytes.Equal(one, other) {
			t.Errorf("%s: %s, again %s, of another id %s", name, one, same, other)
		}
	}
}
