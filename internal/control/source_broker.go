package control

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/internal/config"
)

// SourceBroker says how the processes consume a source from a broker, as of their last heartbeats.
type SourceBroker struct {
	// From is the broker, and the stream, topic or queue there. It contains no account.
	From string `json:"from"`

	// Group is the name under which the broker remembers what was consumed. It is empty while no process consumes.
	Group string `json:"group,omitempty"`

	// Processes are the names of the live processes that consume.
	Processes []string `json:"processes"`

	// Lag is how many messages the broker has that are not acknowledged. It is absent if it is not known.
	Lag *int64 `json:"lag,omitempty"`

	// Reached is when the broker last answered one of the processes. It is absent if it has answered none.
	Reached *time.Time `json:"reached,omitempty"`

	// Error is why a process cannot consume, and Failing since when. They are absent if all of them can.
	Error   string     `json:"error,omitempty"`
	Failing *time.Time `json:"failing,omitempty"`
}

// brokerOf returns how the processes consume a source, or nil if it consumes from no broker.
func (s *Service) brokerOf(ctx context.Context, id int32, settings *config.Source) (*SourceBroker, error) {
	if settings.From == nil {
		return nil, nil //nolint:nilnil // it consumes from none
	}
	out := &SourceBroker{From: settings.From.String(), Processes: []string{}}
	nodes, err := node.List(ctx, s.cfg.Lists)
	for i := range nodes {
		if !nodes[i].Live {
			continue
		}
		for j := range nodes[i].Consumers {
			if c := &nodes[i].Consumers[j]; c.Source == id {
				out.add(nodes[i].Name, c)
			}
		}
	}
	return out, err
}

// add adds what one process says.
func (b *SourceBroker) add(process string, c *node.Consumer) {
	b.Processes, b.Group = append(b.Processes, process), c.Group
	if c.Lag != nil && (b.Lag == nil || b.Reached == nil || c.Reached != nil && c.Reached.After(*b.Reached)) {
		b.Lag = c.Lag
	}
	if c.Reached != nil && (b.Reached == nil || c.Reached.After(*b.Reached)) {
		b.Reached = c.Reached
	}
	if c.Failing != nil && (b.Failing == nil || c.Failing.Before(*b.Failing)) {
		b.Error, b.Failing = c.Error, c.Failing
	}
}
