package crash

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

const (
	senderCount = 20
	secret      = "whsec_crash_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes
	wrongSecret = "whsec_crash_0123456789abcdef0123456789abcdee" //nolint:gosec // as above
)

// senders deliver until they are stopped. Like providers, they deliver again what was not acknowledged, and give some
// of it up.
type senders struct {
	ledger *SenderLedger
	url    string
	client *http.Client

	mu           sync.Mutex
	redeliveries []string

	wait sync.WaitGroup
}

func newSenders(ledger *SenderLedger, address string) *senders {
	return &senders{
		ledger: ledger,
		url:    "http://" + address + "/in/stripe",
		client: rig.NewClient(4*senderCount, 15*time.Second),
	}
}

// start lets the senders deliver until ctx ends.
func (s *senders) start(ctx context.Context, seed uint64) {
	for i := range senderCount {
		random := rig.Random(seed, uint64(i))
		s.wait.Go(func() {
			wait := time.Duration(0)
			for rig.Pause(ctx, wait+time.Duration(5+random.IntN(25))*time.Millisecond) {
				if wait = 0; !s.sendOnce(ctx, random) {
					wait = 100 * time.Millisecond // the binary or the database is down
				}
			}
		})
	}
}

// sendOnce makes one delivery, or several at the same time. It reports whether the server judged it.
func (s *senders) sendOnce(ctx context.Context, random *rand.Rand) bool {
	// A delivery that is under way when the senders stop is still answered and recorded.
	ctx = context.WithoutCancel(ctx)
	n := random.IntN(100)
	if id, ok := s.nextRedelivery(); ok && n < 60 {
		return s.deliver(ctx, random, id)
	}
	switch {
	case n < 60:
		return s.deliver(ctx, random, s.ledger.newEvent(random, false))
	case n < 75: // the same event several times at once
		id := s.ledger.newEvent(random, false)
		var together sync.WaitGroup
		for range 2 + random.IntN(3) {
			own := rig.Random(random.Uint64(), 0)
			together.Go(func() { s.deliver(ctx, own, id) })
		}
		together.Wait()
		return true
	case n < 83: // another payload under an id that was used before
		id, body, from, ok := s.ledger.pickConflict(random)
		if !ok {
			return true
		}
		a := s.post(ctx, body, secret)
		s.ledger.recordConflictAnswer(id, body, from, a)
		return a.status != 0 && a.status/100 != 5
	case n < 97:
		id, ok := s.ledger.pickEvent(random)
		return !ok || s.deliver(ctx, random, id)
	default:
		return s.deliver(ctx, random, s.ledger.newEvent(random, true))
	}
}

func (s *senders) nextRedelivery() (string, bool) {
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
func (s *senders) deliver(ctx context.Context, random *rand.Rand, id string) bool {
	body, forged := s.ledger.body(id)
	key := secret
	if forged {
		key = wrongSecret
	}
	a := s.post(ctx, body, key)
	s.ledger.recordAnswer(id, a)
	if !a.acknowledged() && !forged && random.IntN(10) > 0 {
		s.mu.Lock()
		s.redeliveries = append(s.redeliveries, id)
		s.mu.Unlock()
	}
	return a.status != 0 && a.status/100 != 5
}

func (s *senders) post(ctx context.Context, body []byte, secret string) answer {
	status, content, err := rig.PostOnce(ctx, s.client, s.url, body, rig.StripeHeader(secret, time.Now(), body))
	if err != nil {
		return answer{connectionRefused: errors.Is(err, syscall.ECONNREFUSED)} // an acknowledgement that did not arrive is none
	}
	var receipt struct {
		Status string `json:"status"`
	}
	if status/100 == 2 && json.Unmarshal(content, &receipt) != nil {
		receipt.Status = "not JSON"
	}
	return answer{status: status, receiptStatus: receipt.Status}
}

// deliverRest delivers what has no acknowledgement yet, until it has one or ctx ends.
func (s *senders) deliverRest(ctx context.Context, seed uint64) {
	s.wait.Wait()
	random := rig.Random(seed, senderCount)
	for ctx.Err() == nil {
		id, ok := s.nextRedelivery()
		if !ok {
			return
		}
		s.deliver(ctx, random, id)
	}
}
