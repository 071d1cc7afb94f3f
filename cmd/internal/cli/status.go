package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/internal/control"
)

// statusAnswer is the JSON output of `oncegate status`.
type statusAnswer struct {
	*control.Status
	Nodes         int    `json:"nodes"`
	Silent        int    `json:"nodes_silent"`
	Waiting       int    `json:"effects_waiting"`
	Dead          int    `json:"effects_dead"`
	Indeterminate int    `json:"effects_indeterminate"`
	LastEvent     string `json:"last_event_at,omitempty"`

	// Attention is everything that waits for an operator, as the console's start page shows it.
	Attention []attention.Item `json:"attention"`
}

// commandOf is the command that shows what waits, by its kind. Dead effects and unknown outcomes have their own lines.
var commandOf = map[attention.Kind]string{
	attention.Undeclared:    "history show",
	attention.Unusable:      "dead list --group",
	attention.Blocked:       "streams list --blocked",
	attention.Gaps:          "streams list --gap",
	attention.Undecided:     "streams list --undecided",
	attention.Conflicts:     "conflicts list --waiting",
	attention.RefusedOutbox: "outbox list --refused",
	attention.Stranded:      "routes list",
	attention.NotReloaded:   "nodes list",
	attention.Silent:        "sources list",
	attention.Refusals:      "refusals list --group --since 24h",
	attention.Suspected:     "events list --since 24h",
	attention.Plans:         "replay list --state planned",
	attention.Failing:       "targets list",
	attention.Standstills:   "replay list --state running",
	attention.Paused:        "audit list --action pause",
}

func (s *shell) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show whether events come in, and what waits for a person", Args: cobra.NoArgs,
		Long: "Show the version of the schema, the processes that serve the database, when the last event was\n" +
			"received, how many effects wait, are dead, or have an unknown outcome, what waits in the buffer if there\n" +
			"is one, and everything else that waits for you, with the command that shows it. `oncegate ready` asks\n" +
			"one process whether it can keep its promise.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.configuredControl(cmd.Context(), func(caller control.Caller) error {
				answer, err := readStatus(cmd, caller)
				if err != nil {
					return err
				}
				if s.output == "json" {
					return s.json(answer)
				}
				s.showServing(answer)
				return nil
			})
		},
	}
}

func readStatus(cmd *cobra.Command, caller control.Caller) (*statusAnswer, error) {
	ctx := cmd.Context()
	status, err := control.Call(ctx, caller, &control.ShowStatus, control.NoRequest{})
	if err != nil {
		return nil, err
	}
	out := &statusAnswer{Status: status}
	nodes, err := control.Call(ctx, caller, &control.ListNodes, control.NoRequest{})
	if err != nil {
		return nil, err
	}
	out.Nodes = len(nodes.Data)
	for i := range nodes.Data {
		if !nodes.Data[i].Live {
			out.Silent++
		}
	}
	routes, err := control.Call(ctx, caller, &control.ListRoutes, control.ListRoutesRequest{})
	if err != nil {
		return nil, err
	}
	for i := range routes.Data {
		r := &routes.Data[i]
		out.Waiting, out.Dead, out.Indeterminate = out.Waiting+r.Waiting, out.Dead+r.Dead, out.Indeterminate+r.Indeterminate
	}
	waiting, err := control.Call(ctx, caller, &control.ShowAttention, control.ShowAttentionRequest{})
	if err != nil {
		return nil, err
	}
	out.Attention = waiting.Data
	events, err := control.Call(ctx, caller, &control.ListEvents, control.ListEventsRequest{PageRequest: control.PageRequest{Limit: 1}})
	if err != nil {
		return nil, err
	}
	if len(events.Data) > 0 {
		out.LastEvent = events.Data[0].ReceivedAt.UTC().Format("2006-01-02T15:04:05Z")
	}
	return out, nil
}

func (s *shell) showServing(a *statusAnswer) {
	last := "none yet"
	if a.LastEvent != "" {
		last = a.LastEvent
	}
	processes := plural(a.Nodes, "process", "processes")
	if a.Silent > 0 {
		processes += fmt.Sprintf(", %d of them silent: `oncegate nodes list`", a.Silent)
	}
	hint := func(n int, command string) string {
		if n == 0 {
			return "0"
		}
		return fmt.Sprintf("%d: `oncegate %s`", n, command)
	}
	pairs := []pair{
		{"version", a.Version},
		{"schema", fmt.Sprintf("%d, this program knows %d", a.Schema, a.SchemaKnown)},
		{"served by", processes},
		{"problems", strings.Join(a.Problems, "; ")},
		{"last event", last},
		{"waiting", hint(a.Waiting, "routes list")},
		{"dead", hint(a.Dead, "dead list --group")},
		{"unknown outcomes", hint(a.Indeterminate, "effects list --state indeterminate")},
	}
	if a.Buffer != nil {
		pairs = append(pairs, pair{"buffer", a.Buffer.Words(a.Time)})
	}
	for i := range a.Attention {
		item := &a.Attention[i]
		command, shown := commandOf[item.Kind]
		if !shown {
			continue
		}
		text := fmt.Sprint(item.Count)
		if item.More {
			text += " or more"
		}
		for i := range item.Failures {
			f := &item.Failures[i]
			pairs = append(pairs, pair{"failing", clean(f.Sentence()) + ": `oncegate targets show " + clean(f.Target) + "`"})
		}
		for i := range item.Pauses {
			p := &item.Pauses[i]
			pairs = append(pairs, pair{"paused", clean(p.Words()+", "+pausedText(p)) + ": `oncegate " + resumeText(p) + "`"})
		}
		if item.Pauses != nil || item.Failures != nil {
			continue
		}
		if item.Oldest != nil {
			text += ", since " + clock(*item.Oldest)
		}
		pairs = append(pairs, pair{strings.ReplaceAll(string(item.Kind), "_", " "), text + ": `oncegate " + command + "`"})
	}
	page(s.out, pairs)
}
