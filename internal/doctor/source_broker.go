package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/config"
)

// brokers examines the brokers of sources.
func brokers(ctx context.Context, cfg *Config) ([]Finding, error) {
	return sourceBrokers(ctx, cfg.Settings, cfg.Resolver), nil
}

// sourceBrokers connects to the broker of each source that consumes from one, and asks for its stream, topic or queue. It
// creates nothing there.
func sourceBrokers(ctx context.Context, settings *config.Config, resolver *net.Resolver) []Finding {
	return each(settings.Sources, func(s *config.Source) []Finding {
		if s.From == nil || s.Disabled {
			return nil
		}
		return consumable(ctx, s, resolver)
	})
}

// consumable returns nil if a source can consume from its broker.
func consumable(ctx context.Context, s *config.Source, resolver *net.Resolver) []Finding {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	consuming := s.ConsumerConfig(s.Name)
	consuming.Resolver = resolver
	consumer, err := broker.NewConsumer(consuming)
	if err != nil { // the configuration was checked
		return []Finding{{State: Unknown, Subject: s.Name, Text: oneLine(err)}}
	}
	defer consumer.Close()
	err = consumer.Reach(ctx)
	if err == nil {
		return nil
	}
	remedy := "start the broker, correct from.url, or name its network in from.allow"
	switch {
	case errors.Is(err, broker.ErrNoPlace):
		remedy = fmt.Sprintf("create %s %s at the broker, or correct from.%s", s.From.PlaceKey(), s.From.Place(), s.From.PlaceKey())
	case errors.Is(err, broker.ErrRefused):
		remedy = "correct from.username and from.password, or give the account the right to read " + s.From.Place()
	}
	return []Finding{{State: Fault, Subject: s.Name, Text: oneLine(err), Remedy: remedy}}
}
