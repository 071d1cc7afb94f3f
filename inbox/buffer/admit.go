package buffer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/consume"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/internal/broker"
)

// later is when a message is passed on again that cannot be recorded at present. It is longer than a consumer keeps a group, so
// that the messages around it do not wait.
const later = time.Minute

// Admit has the gate record a buffered delivery. It is what a [consume.Consumer] of the stream delivers to. A delivery that is
// recorded already is a duplicate, and settled. Nothing is ever refused, because its sender was told that it is accepted.
func (b *Buffer) Admit(ctx context.Context, m *consume.Message) consume.Verdict {
	a, name, err := b.read(m.Header, m.Body)
	if err != nil {
		return consume.Verdict{After: later, Err: err}
	}
	if a.Source = b.cfg.Find(name); a.Source == nil {
		return consume.Verdict{After: later, Err: fmt.Errorf("a buffered delivery is of source %s, which this process does not have: add the source again, or remove its deliveries from the stream", name)}
	}
	if other := b.cfg.Elsewhere(name); other != nil {
		if err := other.publish(ctx, a, b.cfg.Now().Add(b.cfg.Deadline)); err != nil {
			return consume.Verdict{After: later, Err: err}
		}
		return consume.Verdict{Settled: true}
	}
	receipt, err := b.breaker.Execute(func() (inbox.Receipt, error) { return b.cfg.Gate.Accept(ctx, a) })
	if errors.Is(err, gate.ErrDelivery) {
		return consume.Verdict{After: later, Err: err}
	}
	if err != nil {
		return consume.Verdict{Err: err}
	}
	b.admitted.Add(1)
	b.log(ctx, a, &receipt)
	return consume.Verdict{Settled: true}
}

// log writes the line by which people follow an event.
func (b *Buffer) log(ctx context.Context, a *inbox.Admission, receipt *inbox.Receipt) {
	for i := range receipt.Items {
		level, message := slog.LevelInfo, "event recorded"
		switch receipt.Items[i].Outcome {
		case inbox.Recorded:
		case inbox.Duplicate:
			message = "duplicate recognised"
		case inbox.Conflict:
			level, message = slog.LevelWarn, "conflict recorded"
		}
		b.cfg.Logger.LogAttrs(ctx, level, message, //nolint:sloglint // one of the constants above
			slog.String("source", a.Source.Name), slog.String("event", receipt.Items[i].ID.String()), slog.String("id", b.cfg.Logged(a.Events[i].EventID)),
			slog.String("type", a.Events[i].Type), slog.String("outcome", string(receipt.Items[i].Outcome)), slog.String("via", "buffer"))
	}
}

// Resting reports whether the consumer should take nothing, because the gate does not work.
func (b *Buffer) Resting() bool { return b.breaker.State() != gobreaker.StateClosed }

// Unordered is a consumer of deliveries that may be admitted in any order: one that cannot be settled does not hold up those
// after it.
type Unordered struct{ broker.Consumer }

// Take implements [broker.Consumer].
func (u Unordered) Take(ctx context.Context, n int) ([]broker.Received, error) {
	out, err := u.Consumer.Take(ctx, n)
	for i := range out {
		out[i].Lane = out[i].Position
	}
	return out, err
}
