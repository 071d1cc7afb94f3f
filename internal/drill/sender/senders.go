package sender

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The types of the events.
const (
	// Paid is the type of events without an order.
	Paid = "invoice.paid"
	// Step is the type of events whose numbers must be applied in sequence.
	Step = "order.step"
	// Version is the type of events of which no older one may be applied after a newer one.
	Version = "order.version"
)

// Config configures senders. All fields but Ordered and Timeout are required.
type Config struct {
	// Run is a part of every event's id.
	Run string

	Ledger  *ledger.Sent
	Sources []Source

	// Addresses are the public addresses of the nodes. Each delivery picks one.
	Addresses []string

	// Count is the number of senders, and Pause the mean time between two deliveries of one of them.
	Count int
	Pause time.Duration

	// Ordered also sends events that have an order, out of it.
	Ordered bool

	// Timeout limits a delivery. It defaults to 15 s.
	Timeout time.Duration
}

// Senders deliver until they are stopped. Like providers, they deliver again what was not acknowledged, and give some
// of it up, unless a later event needs it.
type Senders struct {
	cfg             Config
	client          Client
	steps, versions streams
	made            atomic.Int64

	mu           sync.Mutex
	redeliveries []string

	running sync.WaitGroup
}

// New returns senders that have not started.
func New(cfg Config) *Senders {
	if cfg.Timeout == 0 {
		cfg.Timeout = 15 * time.Second
	}
	return &Senders{
		cfg: cfg, client: Client{Ledger: cfg.Ledger, Sources: cfg.Sources, HTTP: rig.NewClient(4*cfg.Count, cfg.Timeout)},
		steps: streams{prefix: "steps", sources: len(cfg.Sources)}, versions: streams{prefix: "versions", sources: len(cfg.Sources)},
	}
}

// whileDown is how much longer a sender waits after an answer that says that the server or the database is down.
const whileDown = 100 * time.Millisecond

// Start lets the senders deliver until ctx ends. Wait returns when they have stopped.
func (s *Senders) Start(ctx context.Context, seed uint64) {
	for i := range s.cfg.Count {
		random := rig.Random(seed, uint64(i))
		s.running.Go(func() {
			more := time.Duration(0)
			for rig.Pause(ctx, more+time.Duration((0.3+1.4*random.Float64())*float64(s.cfg.Pause))) {
				if more = 0; !s.sendOnce(ctx, random) {
					more = whileDown
				}
			}
		})
	}
}

// Wait returns when all senders have stopped.
func (s *Senders) Wait() { s.running.Wait() }

// sendOnce makes one delivery, or several at the same time. It reports whether the server judged it.
func (s *Senders) sendOnce(ctx context.Context, random *rand.Rand) bool {
	// A delivery that is under way when the senders stop is still answered and recorded.
	ctx = context.WithoutCancel(ctx)
	n := random.IntN(100)
	if n < 60 {
		if id, ok := s.nextRedelivery(); ok {
			return s.deliver(ctx, random, id)
		}
	}
	switch {
	case n < 60 && s.cfg.Ordered && n%4 == 0:
		return s.deliver(ctx, random, s.newPlaced(random, Step, s.steps.take(random)))
	case n < 60 && s.cfg.Ordered && n%4 == 1:
		return s.deliver(ctx, random, s.newPlaced(random, Version, s.versions.take(random)))
	case n < 60:
		return s.deliver(ctx, random, s.newEvent(random, false))
	case n < 75: // the same event several times at once
		id := s.newEvent(random, false)
		var together sync.WaitGroup
		for range 2 + random.IntN(3) {
			own := rig.Random(random.Uint64(), 0)
			together.Go(func() { s.deliver(ctx, own, id) })
		}
		together.Wait()
		return true
	case n < 83: // another payload under an id that was used before
		e, body, from, ok := s.cfg.Ledger.PickConflict(random)
		if !ok {
			return true
		}
		a := s.client.post(ctx, s.any(random), &e, body, time.Now())
		s.cfg.Ledger.ConflictAnswered(e.ID, body, from, a)
		return a.Judged()
	case n < 97:
		e, ok := s.cfg.Ledger.Pick(random)
		return !ok || s.deliver(ctx, random, e.ID)
	default:
		return s.deliver(ctx, random, s.newEvent(random, true))
	}
}

// newEvent makes an event without an order. One of five is about the subject of the event before it.
func (s *Senders) newEvent(random *rand.Rand, forged bool) string {
	source := random.IntN(len(s.cfg.Sources))
	subject := ""
	if last, ok := s.cfg.Ledger.Last(); ok && !forged && random.IntN(5) == 0 && last.Type == Paid {
		subject = last.Subject
		for i := range s.cfg.Sources { // an effect key belongs to one source
			if s.cfg.Sources[i].Name == last.Source {
				source = i
			}
		}
	}
	return s.add(random, &ledger.Event{Source: s.cfg.Sources[source].Name, Type: Paid, Subject: subject, Forged: forged})
}

// newPlaced makes an event that has a place in an order.
func (s *Senders) newPlaced(random *rand.Rand, eventType string, p place) string {
	return s.add(random, &ledger.Event{Source: s.cfg.Sources[p.source].Name, Type: eventType, Stream: p.stream, Number: p.number})
}

// add sets the id, subject and body of an event, and records the event in the ledger.
func (s *Senders) add(random *rand.Rand, e *ledger.Event) string {
	e.ID = fmt.Sprintf("evt_%s_%06d", s.cfg.Run, s.made.Add(1))
	if e.Subject == "" {
		e.Subject = "subject_" + e.ID
	}
	filler := make([]byte, 100+random.IntN(600))
	for i := range filler {
		filler[i] = byte(random.UintN(256))
	}
	e.Body = fmt.Appendf(nil, `{"id":%q,"order":%q,"object":"event","type":%q,"stream":%q,"number":%d,"pending_webhooks":1,"note":"für %s €","data":{"object":{"id":"in_%d","filler":"%s"}}}`,
		e.ID, e.Subject, e.Type, e.Stream, e.Number, strings.Repeat("x", random.IntN(30)), random.Uint32(), hex.EncodeToString(filler))
	s.cfg.Ledger.Add(*e)
	return e.ID
}

func (s *Senders) nextRedelivery() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.redeliveries) == 0 {
		return "", false
	}
	id := s.redeliveries[0]
	s.redeliveries = s.redeliveries[1:]
	return id, true
}

// deliver sends an event once and records the answer. It reports whether the server judged it.
func (s *Senders) deliver(ctx context.Context, random *rand.Rand, id string) bool {
	a := s.client.Deliver(ctx, s.any(random), id)
	e := s.cfg.Ledger.Get(id)
	// The numbers after one that never came would wait for it.
	again := e.Stream != "" || random.IntN(10) > 0
	if !a.Acknowledged() && !e.Forged && again {
		s.mu.Lock()
		s.redeliveries = append(s.redeliveries, id)
		s.mu.Unlock()
	}
	return a.Judged()
}

// any picks the address of any of the nodes.
func (s *Senders) any(random *rand.Rand) string {
	return s.cfg.Addresses[random.IntN(len(s.cfg.Addresses))]
}

// DeliverRest waits for the senders to stop. Then it completes the open streams, and delivers everything that has no
// acknowledgement yet until it has one or ctx ends.
func (s *Senders) DeliverRest(ctx context.Context, seed uint64) {
	s.Wait()
	random := rig.Random(seed, uint64(s.cfg.Count))
	for _, p := range s.steps.rest() {
		s.deliver(ctx, random, s.newPlaced(random, Step, p))
	}
	for ctx.Err() == nil {
		id, ok := s.nextRedelivery()
		if !ok {
			return
		}
		if !s.deliver(ctx, random, id) {
			rig.Pause(ctx, whileDown)
		}
	}
}

// Forge sends forged deliveries of every source to one node, and returns how many of them the node refused.
func (s *Senders) Forge(ctx context.Context, address string, seed uint64, each int) (refused int) {
	random := rig.Random(seed, uint64(s.cfg.Count)+1)
	for i := range each * len(s.cfg.Sources) {
		id := s.add(random, &ledger.Event{Source: s.cfg.Sources[i%len(s.cfg.Sources)].Name, Type: Paid, Forged: true})
		if s.client.Deliver(ctx, address, id).Status/100 == 4 {
			refused++
		}
	}
	return refused
}
