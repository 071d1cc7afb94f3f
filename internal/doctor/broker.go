package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/jobs/effect/publish"
)

// Brokers connects to the brokers of targets and sources and to the buffer, and returns what would lose, double or refuse
// messages. The Check of a finding is "targets", "sources" or "buffer". It publishes, consumes and creates nothing. resolver resolves the brokers' names;
// nil is the standard library's.
func Brokers(ctx context.Context, settings *config.Config, resolver *net.Resolver) []Finding {
	targets, sources, buffer := targetBrokers(ctx, settings, resolver), sourceBrokers(ctx, settings, resolver), examineBuffer(ctx, settings, resolver)
	for i := range targets {
		targets[i].Check = "targets"
	}
	for i := range sources {
		sources[i].Check = "sources"
	}
	for i := range buffer {
		buffer[i].Check = "buffer"
	}
	return slices.Concat(targets, sources, buffer)
}

// targetBrokers examines the broker of every target of kind publish.
func targetBrokers(ctx context.Context, settings *config.Config, resolver *net.Resolver) []Finding {
	return each(settings.Targets, func(t *config.Target) []Finding {
		if t.Kind != config.KindPublish {
			return nil
		}
		return brokerOf(ctx, t, resolver)
	})
}

// brokerOf examines the broker of one target.
func brokerOf(ctx context.Context, t *config.Target, resolver *net.Resolver) (found []Finding) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	cfg := t.PublishConfig(nil)
	cfg.Broker.Resolver = resolver
	sender, err := publish.New(cfg)
	if err != nil {
		return []Finding{{State: Fault, Subject: t.Name, Text: oneLine(err), Remedy: "correct the target"}}
	}
	defer sender.Close()
	faults, err := sender.Check(ctx)
	if err != nil {
		return []Finding{{State: Fault, Subject: t.Name, Text: oneLine(err), Remedy: brokerRemedy(err)}}
	}
	for _, f := range faults {
		state := Fault
		switch {
		case f.Window > 0:
			if f = windowFault(t, f); f.Text == "" {
				continue
			}
			state = Warning
		case f.Warning:
			state = Warning
		}
		found = append(found, Finding{State: state, Subject: t.Name, Text: f.Text, Remedy: f.Remedy})
	}
	return found
}

// windowFault compares how long a stream recognises ids with how long the target's key_window says that they are. Without
// key_window, consumers recognise them, and the stream's window does not matter.
func windowFault(t *config.Target, f broker.Fault) broker.Fault {
	if t.KeyWindow == 0 || t.KeyWindow <= f.Window {
		return broker.Fault{}
	}
	window := f.Window.Round(time.Millisecond)
	f.Text += fmt.Sprintf(" after %s, and key_window is %s", yamltree.FormatDuration(window), yamltree.FormatDuration(t.KeyWindow))
	f.Remedy = fmt.Sprintf("set key_window: %s, or raise the stream's duplicate window", yamltree.FormatDuration(window))
	return f
}

// brokerRemedy says what to set after an error of a connection.
func brokerRemedy(err error) string {
	if errors.Is(err, broker.ErrRefused) {
		return "correct username and password, or give the account the right to publish"
	}
	return "start the broker, correct url, or name its network in allow"
}
