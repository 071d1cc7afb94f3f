package doctor

import (
	"context"
	"fmt"
	"net"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// bufferStream examines the buffer.
func bufferStream(ctx context.Context, cfg *Config) ([]Finding, error) {
	return examineBuffer(ctx, cfg.Settings, cfg.Resolver), nil
}

// examineBuffer connects to the servers of the buffer and asks what their stream does to deliveries. It creates nothing there.
// Servers do not tell clients whether they write to their disks before they acknowledge (sync_interval).
func examineBuffer(ctx context.Context, settings *config.Config, resolver *net.Resolver) (found []Finding) {
	if !settings.Buffer.On() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	cfg := settings.Buffer.StreamConfig()
	cfg.Resolver = resolver
	subject := cfg.Name
	stream, err := broker.NewStream(cfg)
	if err != nil { // the configuration was checked
		return []Finding{{State: Unknown, Subject: subject, Text: oneLine(err)}}
	}
	defer stream.Close()
	faults, err := stream.Check(ctx)
	if err != nil {
		return []Finding{{State: Fault, Subject: subject, Text: oneLine(err), Remedy: "start the NATS servers, correct buffer.url and the account, or name their network in buffer.allow"}}
	}
	for _, f := range faults {
		found = append(found, Finding{State: Fault, Subject: subject, Text: f.Text, Remedy: f.Remedy})
	}
	if most, err := stream.MaxPayload(); err == nil {
		found = append(found, tooLarge(settings, subject, most)...)
	}
	return found
}

// envelopeBytes is about how many bytes a message has more than the body of its delivery.
const envelopeBytes = 16 << 10

// tooLarge warns of sources whose largest deliveries the servers do not take.
func tooLarge(settings *config.Config, subject string, most int64) []Finding {
	largest, name := int64(0), ""
	for _, s := range settings.Sources {
		if limit := s.LargestBody(); settings.Buffers(s) && limit > largest {
			largest, name = limit, s.Name
		}
	}
	if largest+envelopeBytes <= most {
		return nil
	}
	return []Finding{{
		State: Warning, Subject: subject,
		Text:   fmt.Sprintf("the servers take messages of at most %s, and source %s takes bodies of up to %s: larger ones are answered with 503 while the database is away", yamltree.FormatSize(most), name, yamltree.FormatSize(largest)),
		Remedy: fmt.Sprintf("set max_payload of the servers to %s (they take at most 64MiB), or lower max_body", yamltree.FormatSize(largest+envelopeBytes)),
	}}
}
