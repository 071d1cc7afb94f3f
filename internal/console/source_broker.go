package console

import (
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/internal/control"
)

// brokerBlocks show from where a source consumes, how many messages wait there, and why they cannot be consumed.
func brokerBlocks(s *control.SourceDetail) (out []block) {
	b := s.Broker
	if b == nil {
		return nil
	}
	switch {
	case b.Failing != nil:
		out = append(out, block{ID: "failing", Notice: &notice{Kind: "warn", Text: "Messages cannot be consumed: " + b.Error, Detail: "The messages wait at the broker. oncegate doctor says what to change."}})
	case len(b.Processes) == 0 && !s.Disabled:
		out = append(out, block{ID: "failing", Notice: &notice{Kind: "warn", Text: "No live process consumes this source.", Detail: "Start a process that receives, with this configuration."}})
	}
	lag := text("unknown")
	if b.Lag != nil {
		lag = text(strconv.FormatInt(*b.Lag, 10))
	}
	settings := []fact{
		is("Consumes from", code(b.From)), is("Group", code(b.Group)), is("Consumed by", text(strings.Join(b.Processes, ", "))),
		is("Messages that wait there", lag), is("The broker last answered", instantOf(b.Reached)), is("Failing since", instantOf(b.Failing)),
	}
	return append(out, block{ID: "broker", Title: "Broker", Text: "As of the last heartbeats of the processes.", Facts: facts(settings...)})
}
