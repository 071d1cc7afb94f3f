package app

import (
	"time"

	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/providers"
)

// ReceiveAs has the receiver read another clock and the providers fetch from elsewhere, so
// that recorded deliveries verify.
func (c *Config) ReceiveAs(now func() time.Time, keys func(source string) providers.Fetcher) {
	c.receiveNow = now
	c.keysOf = func(source string) outside { return elsewhere{Fetcher: keys(source)} }
}

type elsewhere struct {
	providers.Fetcher
	providers.Asker
}

// BodyChanges are the changes between two bodies of which nothing is hidden.
func BodyChanges(before, after []byte) []replay.Change { return changes(before, after, redaction{}) }
