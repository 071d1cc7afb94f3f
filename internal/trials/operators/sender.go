package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// event is everything delivered under one id.
type event struct {
	source, id string

	// payloads are the delivered payloads. The first is the event's, and the others conflict with it.
	payloads []sentPayload

	// acknowledged says whether any of them was acknowledged, and admitted whether a conflict became a separate
	// event.
	acknowledged, admitted bool

	// gone says that the audit reports the event as erased.
	gone bool

	// erased are the successful erasures of the event.
	erased []span
}

type sentPayload struct {
	payload
	body   []byte
	sentAt time.Time // when it was first acknowledged
}

// span is the time from the beginning of an action to its return. Its results happened in between.
type span struct{ from, to time.Time }

// deliveries is what the senders know.
type deliveries struct {
	mu          sync.Mutex
	events      map[string]*event // by source/id
	recent      []*event
	counts      map[string]int // by the answer
	orders      []string       // keys that get more events
	next        map[string]int // their next numbers
	markerCount int
	client      *http.Client
}

func newDeliveries() *deliveries {
	return &deliveries{
		events: map[string]*event{}, counts: map[string]int{}, next: map[string]int{},
		client: rig.NewClient(8, 15*time.Second),
	}
}

// newMarker returns a text that is in one payload and nowhere else.
func newMarker(seed uint64, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", seed, n))
	return "mark-" + hex.EncodeToString(sum[:6])
}

// newEvent makes an event with its first payload.
func (d *deliveries) newEvent(seed uint64, source string, p payload) *event {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.markerCount++
	e := &event{source: source, id: fmt.Sprintf("evt_%06d", d.markerCount)}
	d.addPayload(seed, e, p)
	d.events[source+"/"+e.id] = e
	if d.recent = append(d.recent, e); len(d.recent) > 60 {
		d.recent = d.recent[1:]
	}
	return e
}

// addPayload adds a payload to an event. The caller must have locked d.mu.
func (d *deliveries) addPayload(seed uint64, e *event, p payload) {
	d.markerCount++
	p.Marker = newMarker(seed, d.markerCount)
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts and numbers
	}
	e.payloads = append(e.payloads, sentPayload{payload: p, body: body})
}

// drawConflict adds a payload to a recent event. It returns nil if there are fewer than 10 recent events.
func (d *deliveries) drawConflict(random *rand.Rand, seed uint64) (*event, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.recent) < 10 {
		return nil, 0
	}
	e := d.recent[random.IntN(len(d.recent)-5)]
	p := e.payloads[0].payload
	p.Fault, p.Faults = "", 0
	d.addPayload(seed, e, p)
	return e, len(e.payloads) - 1
}

// drawRedelivery returns a recent event; nil if there is none.
func (d *deliveries) drawRedelivery(random *rand.Rand) *event {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.recent) < 10 {
		return nil
	}
	return d.recent[random.IntN(len(d.recent))]
}

// orderOf is the order key of the first of the events that has one.
func (d *deliveries) orderOf(events []string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range events {
		if e := d.events[key]; e != nil && e.payloads[0].Order != "" {
			return e.payloads[0].Order
		}
	}
	return ""
}

// drawPosition draws the order key and number of an event. Most follow the previous number; some skip one, repeat one
// or have none. A key is a marker, so that it is found wherever it must not be.
func (d *deliveries) drawPosition(random *rand.Rand, seed uint64) (key string, number int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.orders) < 6 || random.IntN(15) == 0 {
		d.markerCount++
		d.orders = append(d.orders, newMarker(seed, d.markerCount))
	}
	if len(d.orders) > 12 {
		d.orders = d.orders[1:]
	}
	key = d.orders[random.IntN(len(d.orders))]
	switch n := random.IntN(20); {
	case n == 0:
		return "", 0
	case n == 1:
		return key, 0
	case n == 2 && d.next[key] > 0:
		return key, d.next[key] // once more
	case n <= 4:
		d.next[key]++ // one is missing
	}
	d.next[key]++
	return key, d.next[key]
}

// drawFault draws how the targets treat an event.
func drawFault(random *rand.Rand) (fault string, times int) {
	if random.IntN(100) < 40 {
		return "", 0
	}
	return faults[random.IntN(len(faults))], 1 + random.IntN(5)
}

// send delivers the events of a round.
func (c *campaign) send(ctx context.Context, random *rand.Rand) error {
	type delivery struct {
		event   *event
		payload int
	}
	var out []delivery
	fresh := func(source string, p payload) {
		p.Fault, p.Faults = drawFault(random)
		out = append(out, delivery{event: c.deliveries.newEvent(c.seed, source, p)})
	}
	for range 2 {
		fresh("pay", payload{Type: "pay.made", Customer: fmt.Sprintf("customer-%d", random.IntN(200))})
	}
	fresh("pay", payload{Type: "bonus.given"})
	c.deliveries.mu.Lock() // something for the route that is not always there
	if e := out[len(out)-1].event; random.IntN(2) == 0 {
		p := e.payloads[0].payload
		p.Fault, p.Faults = faultBusy, 6
		body, _ := json.Marshal(p) // as before
		e.payloads[0] = sentPayload{payload: p, body: body}
	}
	c.deliveries.mu.Unlock()
	for range 3 {
		key, number := c.deliveries.drawPosition(random, c.seed)
		fresh("orders", payload{Type: "order.changed", Order: key, Number: number})
	}
	for range 1 + random.IntN(2) {
		fresh("brief", payload{Type: "brief.said"})
	}
	for range 2 {
		if e := c.deliveries.drawRedelivery(random); e != nil {
			out = append(out, delivery{event: e})
		}
	}
	if random.IntN(2) == 0 {
		if e, n := c.deliveries.drawConflict(random, c.seed); e != nil {
			out = append(out, delivery{e, n})
		}
	}
	for _, d := range out {
		if err := c.deliver(ctx, random, d.event, d.payload); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends a payload to the servers in turn until it is acknowledged. It stops after 20 s, because both servers may
// be down.
func (c *campaign) deliver(ctx context.Context, random *rand.Rand, e *event, n int) error {
	c.deliveries.mu.Lock()
	body := e.payloads[n].body
	c.deliveries.mu.Unlock()
	first := random.IntN(2)
	for began := time.Now(); time.Since(began) < 20*time.Second; first++ {
		s := c.servers[first%2]
		status, answer, err := rig.Post(ctx, c.deliveries.client, "http://"+s.node.Public+"/in/"+e.source, body, rig.StandardHeader([]byte(secretKey), e.id, time.Now(), body))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && status/100 == 2 {
			var said struct{ Status string }
			_ = json.Unmarshal(answer, &said) // an empty status is counted too
			c.deliveries.mu.Lock()
			if e.acknowledged = true; e.payloads[n].sentAt.IsZero() {
				e.payloads[n].sentAt = time.Now()
			}
			c.deliveries.counts[said.Status]++
			c.deliveries.mu.Unlock()
			return nil
		}
		if err == nil && status != http.StatusServiceUnavailable {
			return fmt.Errorf("delivering %s/%s: it is answered with %d", e.source, e.id, status)
		}
		if !rig.Pause(ctx, 30*time.Millisecond) {
			return ctx.Err()
		}
	}
	c.deliveries.mu.Lock()
	defer c.deliveries.mu.Unlock()
	c.deliveries.counts["given up"]++
	return nil
}
