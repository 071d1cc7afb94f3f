package consume

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/sleep"
)

// batch is a group of messages that were taken together.
type batch struct {
	c        *Consumer
	received []broker.Received
	messages []Message
	verdicts []Verdict

	largest      int           // bytes of the largest body
	limited      bool          // a quota was used up
	after        time.Duration // how long the quota keeps the messages that are returned
	settledFirst int           // how many messages the first try settled
}

// reservedPrefix begins the names of the headers that only Oncegate sets.
const reservedPrefix = "Oncegate-Broker-"

// maxRemembered is how many messages that came back are remembered.
const maxRemembered = 10_000

func (c *Consumer) newBatch(received []broker.Received) *batch {
	b := &batch{c: c, received: received, messages: make([]Message, len(received)), verdicts: make([]Verdict, len(received))}
	now := c.cfg.Now()
	for i := range received {
		r := &received[i]
		m := &b.messages[i]
		*m = Message{Header: c.header(r), Body: r.Body, At: r.At, Since: now}
		if m.At.IsZero() || m.At.After(now) {
			m.At = now
		}
		if len(c.since) > 0 {
			if first, ok := c.since[identify(r)]; ok {
				m.Since = first
			}
		}
		b.largest = max(b.largest, len(r.Body))
	}
	return b
}

// header returns the headers of a message with those that say where it was.
func (c *Consumer) header(r *broker.Received) http.Header {
	out := r.Header
	for name := range out {
		if strings.HasPrefix(name, reservedPrefix) {
			delete(out, name)
		}
	}
	out.Set(c.cfg.Names.Lane, r.Lane)
	if r.Position != "" {
		out.Set(c.cfg.Names.Position, r.Position)
	}
	if !r.At.IsZero() {
		out.Set(c.cfg.Names.Time, r.At.UTC().Format(time.RFC3339Nano))
	}
	return out
}

// identify returns what a message is recognised by when it comes back.
func identify(r *broker.Received) string {
	if r.Position != "" {
		return r.Position
	}
	sum := sha256.Sum256(r.Body)
	return string(sum[:])
}

// settle passes the messages on until all of them are settled, for as long as the consumer has patience. It returns why the
// others are not settled.
func (b *batch) settle(ctx context.Context) error {
	until := b.c.cfg.Now().Add(b.c.cfg.Patience)
	backoff := leastBackoff
	for try := 0; ; try++ {
		b.pass(ctx)
		unsettled, after, err := b.unsettled()
		if try == 0 {
			b.settledFirst = len(b.messages) - unsettled
		}
		if unsettled == 0 {
			return nil
		}
		b.limited = b.limited || err == nil
		after = max(after, backoff)
		backoff = min(2*backoff, mostBackoff)
		if b.c.cfg.Now().Add(after).After(until) || sleep.For(ctx, after) != nil {
			b.remember()
			if b.after = after; err != nil {
				b.after = 0
			}
			return err
		}
	}
}

// pass passes on the messages that are not settled: all at once, or the lanes at once and each lane in its order.
func (b *batch) pass(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // what has begun is finished
	var all sync.WaitGroup
	if !b.c.cfg.Ordered {
		for i := range b.messages {
			if !b.verdicts[i].Settled {
				all.Go(func() { b.verdicts[i] = b.c.cfg.Deliver(ctx, &b.messages[i]) })
			}
		}
		all.Wait()
		return
	}
	for _, lane := range b.lanes() {
		all.Go(func() {
			for _, i := range lane {
				if b.verdicts[i].Settled {
					continue
				}
				if b.verdicts[i] = b.c.cfg.Deliver(ctx, &b.messages[i]); !b.verdicts[i].Settled {
					return
				}
			}
		})
	}
	all.Wait()
}

// lanes returns the indices of the messages of each lane, in their order.
func (b *batch) lanes() map[string][]int {
	out := map[string][]int{}
	for i := range b.received {
		out[b.received[i].Lane] = append(out[b.received[i].Lane], i)
	}
	return out
}

// unsettled counts the messages that are not settled, and returns the longest time that one of them should wait and an error
// of one of them. The error is nil if only quotas keep them.
func (b *batch) unsettled() (n int, after time.Duration, err error) {
	for i := range b.verdicts {
		v := &b.verdicts[i]
		if v.Settled {
			continue
		}
		n++
		after = max(after, v.After)
		if v.Err != nil {
			err = v.Err
		}
	}
	return n, after, err
}

// divide returns the messages that may be acknowledged, and the others. It counts how many in a row were refused.
func (b *batch) divide() (settled, rest []broker.Received) {
	stuck := map[string]bool{}
	for i := range b.received {
		r, v := &b.received[i], &b.verdicts[i]
		if v.Settled && len(b.c.since) > 0 {
			delete(b.c.since, identify(r))
		}
		if stuck[r.Lane] = stuck[r.Lane] || !v.Settled; stuck[r.Lane] {
			rest = append(rest, *r)
			continue
		}
		if b.c.refused++; !v.Refused {
			b.c.refused = 0
		}
		settled = append(settled, *r)
	}
	return settled, rest
}

// remember remembers since when the unsettled messages are passed on, for when they come back.
func (b *batch) remember() {
	if len(b.c.since) > maxRemembered {
		clear(b.c.since) // most of them went to another process
	}
	for i := range b.verdicts {
		if v := &b.verdicts[i]; !v.Settled && v.Err != nil {
			b.c.since[identify(&b.received[i])] = b.messages[i].Since
		}
	}
}
