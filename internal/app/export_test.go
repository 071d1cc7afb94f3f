package app

import (
	"net/http"
	"time"

	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/providers"
)

// ReceiveAs has the receiver read another clock and the providers fetch from elsewhere, so
// that recorded deliveries verify.
func (c *Config) ReceiveAs(now func() time.Time, keys func(source string) providers.Fetcher) {
	c.receiveNow = now
	c.keysOf = func(source string) outside { return elsewhere{Fetcher: keys(source)} }
}

// ConsumeThrough puts a test between the consumers and their brokers.
func (c *Config) ConsumeThrough(wrap func(source string, from broker.Consumer) broker.Consumer) {
	c.consumerOf = wrap
}

type elsewhere struct {
	providers.Fetcher
	providers.Asker
}

// BodyChanges are the changes between two bodies of which nothing is hidden.
func BodyChanges(before, after []byte) []replay.Change { return changes(before, after, redaction{}) }

// HandOver answers a request with the handler of a process whose lead is taken over in between: the App that led shuts
// its door after the request has looked for it. If nobody takes over, next is nil.
func HandOver(w http.ResponseWriter, r *http.Request, next http.Handler) {
	first, second := &App{door: newDoor()}, &App{door: newDoor()}
	l := &listeners{}
	l.lead.Store(first)
	l.handler(func(a *App) *door {
		if a == first && next != nil {
			second.door.open(next)
			l.lead.Store(second)
		}
		return a.door
	}).ServeHTTP(w, r)
}
