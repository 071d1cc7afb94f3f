package effecttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Handle is a handler outside the database.
type Handle func(ctx context.Context, call *effect.Call) ([]byte, error)

// Outside returns handlers of all sorts, for a kind that calls one.
func Outside(build func(tb testing.TB, handle Handle) effect.Sender) Kind {
	errOwn := errors.New("own")
	odd := errors.New("\x00\xff" + pad(3000))
	k := Kind{Without: map[Topic]string{
		Forbidden: "it dials by itself", HalfReply: "a handler answers whole", SlowReply: "a handler answers at once",
		Secrets: "it is told none, and its errors are its own",
	}}
	for name, c := range map[string]struct {
		topic  Topic
		want   effect.Outcome
		reason string
		taken  int
		limit  time.Duration
		handle Handle
	}{
		"nothing to keep": {Succeeds, effect.Done, "", 1, 0, acts(nil, nil)},
		"a result":        {Succeeds, effect.Done, "", 1, 0, acts([]byte("ch_1"), nil)},
		"for good":        {Refuses, effect.Dead, reasons.Handler, 0, 0, fails(effect.Permanent(errOwn))},
		"for good, in other words": {Refuses, effect.Dead, reasons.Handler, 0, 0,
			fails(fmt.Errorf("charging: %w", effect.Permanent(errOwn)))},
		"in a minute":                  {Later, effect.Retry, reasons.Handler, 0, 0, fails(effect.After(time.Minute, errOwn))},
		"nobody is there":              {Unreachable, effect.Retry, reasons.Handler, 0, 0, fails(effect.After(0, errOwn))},
		"it knows that it did nothing": {BreaksBefore, effect.Retry, reasons.Handler, 0, 0, fails(effect.After(-time.Second, odd))},
		"an error after it":            {BreaksAfter, effect.Unknown, reasons.Handler, 1, 0, acts(nil, errOwn)},
		"an error that no row can hold": {AnswersAfter, effect.Unknown, reasons.Handler, 1, 0,
			acts([]byte("x"), odd)},
		"a stop before it": {StallsBefore, effect.Retry, reasons.Handler, 0, 50 * time.Millisecond, func(ctx context.Context, _ *effect.Call) ([]byte, error) {
			<-ctx.Done()
			return nil, effect.After(0, ctx.Err())
		}},
		"the end of its time": {StallsAfter, effect.Unknown, reasons.Timeout, 0, 50 * time.Millisecond, func(ctx context.Context, _ *effect.Call) ([]byte, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("waiting: %w", ctx.Err())
		}},
		"a result that is too long": {HugeReply, effect.Done, "", 1, 0, acts(make([]byte, 1<<20), nil)},
		"key and body":              {Repeats, effect.Retry, reasons.Handler, 1, 0, acts(nil, effect.After(0, errOwn))},
	} {
		k.Cases = append(k.Cases, Case{Topic: c.topic, Name: name, Want: c.want, Reason: c.reason, Taken: c.taken, Limit: c.limit, Start: func(tb testing.TB) Trial {
			b := &book{}
			sender := build(tb, func(ctx context.Context, call *effect.Call) ([]byte, error) {
				return c.handle(context.WithValue(ctx, inBook, b), call)
			})
			return Trial{Attempt: attempts(sender, nil), Taken: b.read}
		}, Check: func(tb testing.TB, r effect.Result) {
			if wait := map[bool]time.Duration{true: time.Minute}[name == "in a minute"]; r.RetryAfter != wait {
				tb.Errorf("asked to wait %s, want %s", r.RetryAfter, wait)
			}
			if kept := string(r.Stored); len(kept) > 64<<10 || name == "a result" && kept != "ch_1" {
				tb.Errorf("kept %d bytes", len(kept))
			}
		}})
	}
	return k
}

// Nothing returns the cases of a kind that reaches nothing. It can only succeed.
func Nothing(build func(tb testing.TB) effect.Sender) Kind {
	k := Kind{Without: map[Topic]string{}}
	for _, topic := range Topics() {
		k.Without[topic] = "it reaches nothing"
	}
	for _, topic := range []Topic{Succeeds, Repeats} {
		delete(k.Without, topic)
		k.Cases = append(k.Cases, Case{Topic: topic, Name: "always", Want: effect.Done, Start: func(tb testing.TB) Trial {
			return Trial{Attempt: attempts(build(tb), nil), Taken: func() []string { return nil }}
		}})
	}
	return k
}

// book records what the handlers did.
type book struct {
	mu   sync.Mutex
	done []string
}

func (b *book) read() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.done...)
}

type bookKey int

const inBook bookKey = 0

// acts returns a handler that records the effect and returns result and err.
func acts(result []byte, err error) Handle {
	return func(ctx context.Context, call *effect.Call) ([]byte, error) {
		b, _ := ctx.Value(inBook).(*book)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.done = append(b.done, call.Key+"\n"+string(call.Event.Body))
		return result, err
	}
}

// fails returns a handler that does nothing and returns err.
func fails(err error) Handle {
	return func(context.Context, *effect.Call) ([]byte, error) { return nil, err }
}
