package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/buffer"
	"github.com/oncegate/oncegate/inbox/consume"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/migrations"
)

// bufferStep is the step of the start with which the buffer is used.
const bufferStep = "buffer"

// returnedFor is how long a buffered delivery stays away that could not be recorded, so that others come first.
const returnedFor = 5 * time.Second

// prepareEvery is how often a buffer is prepared that could not be reached.
const prepareEvery = 10 * time.Second

// buffered is the buffer of a process with its stream and what consumes it.
type buffered struct {
	*buffer.Buffer
	stream    *broker.Stream
	others    []*broker.Stream // those of databases to which sources have moved
	consumers []*consume.Consumer
	prepared  bool // the stream exists and has the note of this start
}

// accepter returns what takes the deliveries of sources that are buffered. It is nil without a buffer.
func (b *buffered) accepter() receiver.Accepter {
	if b == nil {
		return nil
	}
	return b.Buffer
}

// waiting returns how many deliveries were in the buffer when its servers were last asked, and whether they have answered.
func (b *buffered) waiting() (n int64, known bool) {
	for _, c := range b.consumers {
		if lag := c.State().Lag; lag >= 0 {
			n, known = n+lag, true
		}
	}
	return n, known
}

// makeBuffer makes the buffer and its consumers if the configuration has one. They connect when they are started. The gate must
// exist.
func (a *App) makeBuffer() error {
	settings := &a.settings.Buffer
	if !settings.On() {
		return nil
	}
	cfg := settings.StreamConfig()
	stream, err := broker.NewStream(cfg)
	if err != nil {
		return fmt.Errorf("buffer: %w", err)
	}
	sources := make(map[string]*inbox.Source, len(a.settings.Sources))
	for _, s := range a.settings.Sources {
		made := a.inboxSource(s)
		sources[made.FirstName()] = made
	}
	out := &buffered{stream: stream}
	wanted := buffer.Config{
		Gate: a.accepter(), Stream: stream, Name: cfg.Name, Always: settings.Always() || a.waiting != nil, After: settings.Wait(), Deadline: a.settings.Gate.Deadline,
		Ordered: ordersArrival, Find: func(name string) *inbox.Source { return sources[name] },
		Keyring: a.keys, Secret: a.bufferSecret(), Logged: a.installation.Logged, Logger: a.log, Now: a.clock.Now,
	}
	if wanted.Elsewhere, err = out.elsewhere(a, cfg, wanted); err != nil {
		return err
	}
	if out.Buffer, err = buffer.New(wanted); err != nil {
		return err
	}
	a.buffered = out
	if a.waiting == nil {
		err = a.makeBufferConsumers(cfg)
	}
	if err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: bufferStep, run: a.startBuffer})
	return a.collect(bufferCollector{a})
}

// elsewhere makes the buffers of the databases to which sources have moved, and returns the one of each source.
func (b *buffered) elsewhere(a *App, stream broker.StreamConfig, like buffer.Config) (func(string) *buffer.Buffer, error) {
	others, of := map[string]*buffer.Buffer{}, map[string]*buffer.Buffer{}
	for _, s := range a.settings.Sources {
		if !s.Departed {
			continue
		}
		if others[s.MovedStream] == nil {
			stream.Name = s.MovedStream
			to, err := broker.NewStream(stream)
			if err != nil {
				return nil, fmt.Errorf("buffer: %w", err)
			}
			b.others = append(b.others, to)
			like.Stream, like.Name = to, s.MovedStream
			if others[s.MovedStream], err = buffer.New(like); err != nil {
				return nil, err
			}
		}
		of[a.inboxSource(s).FirstName()] = others[s.MovedStream]
	}
	return func(name string) *buffer.Buffer { return of[name] }, nil
}

// ordersArrival reports whether a route of the source carries out effects in the order of arrival.
func ordersArrival(s *inbox.Source) bool {
	for i := range s.Routes {
		if s.Routes[i].Order.Mode == sequence.Arrival {
			return true
		}
	}
	return false
}

// makeBufferConsumers makes what brings buffered deliveries to the gate: a consumer for those that may be recorded in any order,
// and one for the others.
func (a *App) makeBufferConsumers(stream broker.StreamConfig) error {
	unordered, ordered := buffer.Subjects(stream.Name)
	for _, c := range []broker.ConsumerConfig{
		{Config: stream.Config, Place: stream.Name, Group: "oncegate-unordered", Filter: unordered, ReturnAfter: returnedFor},
		{Config: stream.Config, Place: stream.Name, Group: "oncegate-ordered", Filter: ordered, Ordered: true},
	} {
		from, err := broker.NewConsumer(c)
		if err != nil {
			return fmt.Errorf("buffer: %w", err)
		}
		if !c.Ordered {
			from = buffer.Unordered{Consumer: from}
		}
		made, err := consume.New(consume.Config{
			Source: "(buffer)", Broker: from, Ordered: c.Ordered, Logger: a.log, Now: a.clock.Now, Deliver: a.buffered.Admit, Paused: a.buffered.Resting,
			Names: consume.Names{Position: receiver.HeaderPosition, Lane: receiver.HeaderLane, Time: receiver.HeaderTime},
		})
		if err != nil {
			return err
		}
		a.buffered.consumers = append(a.buffered.consumers, made)
	}
	return nil
}

// startBuffer makes the stream if there is none, and starts to consume it. A buffer that cannot be reached does not keep the
// process from starting, because the gate works without it.
func (a *App) startBuffer(ctx context.Context) error {
	b := a.buffered
	a.cleanups.add("buffer", func(ctx context.Context) error {
		errs := make([]error, len(b.consumers))
		for i, c := range b.consumers {
			errs[i] = c.Stop(ctx)
		}
		b.stream.Close()
		for _, other := range b.others {
			other.Close()
		}
		return errors.Join(errs...)
	})
	for _, c := range b.consumers {
		c.Start(ctx)
	}
	a.prepareBuffer(ctx)
	a.every(ctx, "buffer preparation", prepareEvery, a.prepareBuffer)
	return nil
}

// prepareBuffer makes the stream if there is none, and tells the buffer of this configuration, once.
func (a *App) prepareBuffer(ctx context.Context) {
	b := a.buffered
	if b.prepared {
		return
	}
	err := b.stream.Ensure(ctx)
	if err == nil && a.waiting == nil {
		err = a.rememberStart(ctx)
	}
	if b.prepared = err == nil; !b.prepared {
		a.log.WarnContext(ctx, "the buffer cannot be used, so that deliveries are answered with 503 while the database is away: `oncegate doctor` says what to change", slog.Any("error", err))
	}
}

// whileAway are the checks that fail because the database is away.
var whileAway = map[string]bool{"database": true, "commits": true, "gate": true, "schema": true, "history": true, "work": true}

// buffering returns the status of a process that is ready although the checks have failed: it takes deliveries, and the buffer
// keeps them. It is empty if the process is not ready. A process that does not fit the schema is not, because an operator has to
// act.
func (a *App) buffering(failed map[string]error) string {
	if a.buffered == nil || !a.buffered.stream.Connected() {
		return ""
	}
	for name, err := range failed {
		if !whileAway[name] || errors.Is(err, migrations.ErrSchema) {
			return ""
		}
	}
	return "buffering"
}
