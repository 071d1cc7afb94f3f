package gate

import (
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/seal"
)

// seal makes what will be stored of the delivery; in the caller's goroutine, so
// that the flusher need not.
func (d *delivery) seal(keys *seal.Keyring) {
	ring := keys.Ring()
	d.headers, _ = ring.Seal(place.Headers(d.bodyID), d.headers)
	d.body, d.keyID = ring.Seal(place.Body(d.bodyID), d.body)
	for i := range d.entries {
		for j := range d.entries[i].effects {
			if e := &d.entries[i].effects[j]; e.place != nil && e.place.hash != nil {
				e.place.label = place.SealLabel(ring, e.route.ID, e.place.hash, e.place.key)
			}
		}
	}
}
