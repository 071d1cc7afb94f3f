package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oncegate/oncegate/inbox/consume"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/config"
)

// consumersStep is the step of the start with which messages are taken from brokers.
const consumersStep = "consumers"

// consumer is a source that this process consumes from a broker.
type consumer struct {
	*consume.Consumer
	source *config.Source
	id     int32
	group  string
}

// makeConsumers makes the consumers of the sources that consume from brokers. They connect when they are started, and a broker
// that is down affects nothing else.
func (a *App) makeConsumers() error {
	var errs []error
	for _, s := range a.settings.Sources {
		if s.From == nil || s.Disabled {
			continue
		}
		made, err := a.makeConsumer(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("source %s: %w", s.Name, err))
			continue
		}
		a.consumers = append(a.consumers, made)
	}
	if err := errors.Join(errs...); err != nil || len(a.consumers) == 0 {
		return err
	}
	a.starts = append(a.starts, step{name: consumersStep, run: func(ctx context.Context) error {
		a.cleanups.add(consumersStep, a.stopConsumers)
		for _, c := range a.consumers {
			c.Start(ctx)
		}
		return nil
	}})
	return a.collect(consumersCollector{a})
}

func (a *App) makeConsumer(s *config.Source) (*consumer, error) {
	id := a.sources[s.Name].ID
	cfg := s.ConsumerConfig("oncegate-" + a.keySource(s))
	from, err := broker.NewConsumer(cfg)
	if err != nil {
		return nil, err
	}
	if a.cfg.consumerOf != nil {
		from = a.cfg.consumerOf(s.Name, from)
	}
	made, err := consume.New(consume.Config{
		Source: s.Name, Broker: from, Ordered: cfg.Ordered, Logger: a.log, Now: a.clock.Now,
		Names:  consume.Names{Position: receiver.HeaderPosition, Lane: receiver.HeaderLane, Time: receiver.HeaderTime},
		Paused: func() bool { return a.pauses.Source(id) },
		Deliver: func(ctx context.Context, m *consume.Message) consume.Verdict {
			return consume.Verdict(a.taker.Deliver(ctx, s.Name, (*receiver.Message)(m)))
		},
	})
	if err != nil {
		return nil, err
	}
	return &consumer{Consumer: made, source: s, id: id, group: cfg.Group}, nil
}

// stopConsumers stops all consumers at once, because each of them may have a group of messages under way.
func (a *App) stopConsumers(ctx context.Context) error {
	errs := make(chan error, len(a.consumers))
	for _, c := range a.consumers {
		go func() { errs <- c.Stop(ctx) }()
	}
	var all []error
	for range a.consumers {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// consuming returns what this process consumes, for the other processes.
func (a *App) consuming() (out []node.Consumer) {
	if !a.started.Load() {
		return nil
	}
	for _, c := range a.consumers {
		state := c.State()
		shown := node.Consumer{Source: c.id, Group: c.group, Error: config.RedactURLs(state.Error)}
		if state.Lag >= 0 {
			shown.Lag = &state.Lag
		}
		if !state.Reached.IsZero() {
			shown.Reached = &state.Reached
		}
		if !state.Failing.IsZero() {
			shown.Failing = &state.Failing
		}
		out = append(out, shown)
	}
	slices.SortFunc(out, func(x, y node.Consumer) int { return int(x.Source - y.Source) })
	return out
}
