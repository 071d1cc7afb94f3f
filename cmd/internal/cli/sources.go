package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) sourcesCommand() *cobra.Command {
	return group("sources", "List, show, test, pause, resume or move the sources, and define those of the database", slices.Concat(
		[]*cobra.Command{s.sourcesListCommand(), s.sourcesShowCommand(), s.sourcesTestCommand(), s.sourcesMoveCommand()},
		s.pauseCommands(&control.PauseSource, &control.ResumeSource, pause.Source, sourceWaits),
		s.definitionCommands())...)
}

func (s *shell) sourcesListCommand() *cobra.Command {
	list := newList(s, &control.ListSources, &sourceColumns, &cobra.Command{
		Short: "List every source that a server was ever started with",
		Long: "List every source that a server was ever started with, with the path at which it takes deliveries, or the broker from\n" +
			"which it consumes. One\n" +
			"that is not configured any more takes nothing, and keeps its events.",
	})
	list.on.settings = (*shell).optionalConfig
	return list.Command
}

// shadowLine says what shadow mode does; it is empty for a source that is not in it.
func shadowLine(shadow bool) string {
	if !shadow {
		return ""
	}
	return "yes: its events are recorded, and none of their effects is carried out"
}

var sourceColumns = columns[control.Source]{
	header: []string{"NAME", "PROVIDER", "ADDRESS", "CONFIGURED", "CLASS", "TENANT", "CREATED", "SHADOW", "PAUSED"},
	spare:  []string{"CREATED", "CLASS", "TENANT"}, ids: []string{"NAME", "ADDRESS"}, whole: []string{"CREATED"},
	cells: func(row *control.Source) []any {
		return []any{row.Name, row.Provider, cmp.Or(row.Address, row.From), configuredText(row), row.Class, row.Tenant, row.CreatedAt, onlyIf(row.Shadow, "shadow"), pauseCell(row.Paused)}
	},
}

// configuredText says whether a source takes deliveries, and where it is defined.
func configuredText(source *control.Source) string {
	text := "yes"
	switch {
	case source.Move != nil && (source.Move.Leaves || !source.Configured):
		return source.Move.Text()
	case !source.Configured:
		return "no"
	case source.Disabled:
		text = "disabled"
	}
	if source.Stored {
		text += ", in the database"
	}
	return text
}

// brokerPairs show how a source is consumed from its broker.
func brokerPairs(b *control.SourceBroker) []pair {
	if b == nil {
		return nil
	}
	lag, reached := "unknown", "never"
	if b.Lag != nil {
		lag = count(int(*b.Lag), "message")
	}
	if b.Reached != nil {
		reached = clock(*b.Reached)
	}
	failing := ""
	if b.Failing != nil {
		failing = b.Error + ", since " + clock(*b.Failing)
	}
	return []pair{{"group", b.Group}, {"consumed by", cmp.Or(strings.Join(b.Processes, ", "), "no process")}, {"lag", lag}, {"broker answered", reached}, {"failing", failing}}
}

func (s *shell) sourcesShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <name>", Short: "Show the configuration of one source, without its secrets", Args: cobra.ExactArgs(1),
		Long: "Show the configuration of one source: the address that its sender posts to, the references and expiry of\n" +
			"its secrets, and its routes. The output contains no secret.",
		RunE: func(cmd *cobra.Command, args []string) error {
			on := onDatabase{settings: (*shell).optionalConfig}
			return answer(s, cmd, on, &control.ShowSource, control.SourceReference{Name: args[0]}, func(source *control.SourceDetail) error {
				pairs := []pair{
					{"source", source.Name},
					{"provider", source.Provider},
					{"address", source.Address},
					{"from", source.From},
					{"external url", source.ExternalURL},
					{"configured", configuredText(&source.Source)},
					{"move", source.Move.Text()},
					{"shadow", shadowLine(source.Shadow)},
					{"paused", pausedLine(source.Paused)},
					{"class", source.Class},
					{"tenant", source.Tenant},
					{"created", clock(source.CreatedAt)},
				}
				for _, secret := range source.Secrets {
					until := ""
					if secret.Until != nil {
						until = ", until " + clock(*secret.Until)
					}
					pairs = append(pairs, pair{"secret", strings.TrimSpace(secret.Credential+" "+secret.From) + until})
				}
				pairs = append(pairs, brokerPairs(source.Broker)...)
				pairs = append(pairs, reconcilePairs(source.Reconcile)...)
				for _, route := range source.Routes {
					types := "all types"
					if len(route.Types) > 0 {
						types = strings.Join(route.Types, ", ")
					}
					pairs = append(pairs, pair{"route", strings.TrimSpace(fmt.Sprintf("%s: %s -> %s (%s) %s", route.Name, types, route.Target, route.Kind, route.Address))})
				}
				page(s.out, pairs)
				return nil
			})
		},
	}
}
