package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) deadCommand() *cobra.Command {
	return group("dead", "List, show, replay or discard dead letters",
		s.deadListCommand(), s.deadShowCommand(), s.deadReplayCommand(), s.deadDiscardCommand())
}

// deadFilter checks the flags of a filter for dead letters, which requestFlags has added.
func deadFilter(cmd *cobra.Command, filter *control.DeadLetterFilter, parse func() error) func() error {
	restrict(cmd, "error-class", texts(read.ErrorClasses()))
	return func() error {
		if _, known := reasons.Reason(filter.Reason).Known(); filter.Reason != "" && !known && !slices.Contains(control.Admissions(), filter.Reason) {
			return usagef("--dead-reason %q is no reason; `oncegate dead list --group` shows those there are", clean(filter.Reason))
		}
		return parse()
	}
}

// deadFlags adds the flags of a filter for dead letters. It returns a function that reads them.
func deadFlags(cmd *cobra.Command, filter *control.DeadLetterFilter) (parse func() error) {
	return deadFilter(cmd, filter, requestFlags(cmd, filter))
}

func (s *shell) deadListCommand() *cobra.Command {
	var grouped bool
	var export string
	list := newList(s, &control.ListDeadLetters, &deadColumns, &cobra.Command{
		Short: "List dead letters, newest first, or grouped",
		Long: "List dead letters, newest first: effects that did not happen and will not by themselves, and\n" +
			"events that were recorded as unusable or beyond_retention.\n\n" +
			"--group sums them up by what looks like one fault. Beneath, it counts unknown outcomes, which are\n" +
			"no dead letters (as JSON: `effects resolve --dry-run`). --export jsonl writes all of them, one\n" +
			"JSON object on each line.",
	})
	filter := &list.request.DeadLetterFilter
	list.readFlags = deadFilter(list.Command, filter, list.readFlags)
	list.Command.Flags().BoolVar(&grouped, "group", false, "sum them up by source, route, reason and code")
	list.Command.Flags().StringVar(&export, "export", "", "write all that match: jsonl")
	list.check = func([]string) error {
		if export != "" && export != "jsonl" {
			return usagef("--export %q is unknown; known is jsonl", clean(export))
		}
		if export != "" && grouped {
			return usagef("--export and --group exclude each other")
		}
		if export != "" { // an export has every page as JSON lines, and ignores --limit
			s.output, s.jsonLines, list.pages.all = "json", true, true
			list.Command.Flags().Lookup("limit").Changed = false
		}
		return nil
	}
	list.instead = func(ctx context.Context, caller control.Caller) (done bool, err error) {
		if !grouped {
			return false, nil
		}
		groups, err := control.Call(ctx, caller, &control.GroupDeadLetters, *filter)
		if err = showGroups(s, list.Command, "dead letters", &deadGroupColumns, groups, err); err == nil {
			err = s.unknownBeneath(ctx, caller, filter)
		}
		return true, err
	}
	return list.Command
}

var deadColumns = columns[control.DeadLetter]{
	header: []string{"RECEIVED", "SOURCE", "TYPE", "EVENT ID", "ROUTE", "TARGET", "REASON", "CODE", "ATTEMPTS", "DIED", "SAID", "ID"},
	spare:  []string{"SAID", "TARGET", "ATTEMPTS", "DIED", "TYPE"}, ids: []string{"EVENT ID", "ID"}, whole: []string{"RECEIVED", "DIED", "CODE"},
	cells: func(row *control.DeadLetter) []any {
		attempts := onlyIf(row.Route != "", fmt.Sprint(row.Attempts))
		return []any{
			row.ReceivedAt, row.Source, row.Type, row.EventID, row.Route, row.Target, cmp.Or(row.LastReason, row.Reason), row.Code, attempts,
			row.DiedAt, cut(oneLine(row.Said), 80), row.ID,
		}
	},
	entry: func(row *control.DeadLetter) listEntry {
		ids := map[string]string{kindEvent: row.Event.String()}
		if row.Route != "" {
			ids[kindEffect] = row.ID.String()
		}
		return listEntry{IDs: ids, Name: strings.TrimSpace(row.Source + "/" + row.EventID + " " + row.Route)}
	},
}

var deadGroupColumns = columns[read.DeadGroup]{
	header: []string{"COUNT", "SOURCE", "ROUTE", "TARGET", "REASON", "CODE", "FIRST", "LAST", "EXAMPLE"},
	spare:  []string{"TARGET", "FIRST"}, ids: []string{"EXAMPLE"}, whole: []string{"COUNT", "FIRST", "LAST"},
	cells: func(g *read.DeadGroup) []any {
		return []any{read.CountOf(g.Count, g.More), g.Source, g.Route, g.Target, g.Reason, g.Code, g.First, g.Last, g.Example}
	},
	entry: func(g *read.DeadGroup) listEntry {
		if g.Route == "" {
			return listEntry{IDs: map[string]string{kindEvent: g.Example.String()}, Name: g.Source}
		}
		return listEntry{IDs: map[string]string{kindEffect: g.Example.String()}, Name: g.Source + "/" + g.Route}
	},
}

func (s *shell) deadShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <id>", Short: "Show one dead letter", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err != nil {
				return err
			}
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				dead, err := control.Call(cmd.Context(), caller, &control.ShowDeadLetter, control.IDRequest{ID: ids[0]})
				switch {
				case problemCode(err) == control.CodeNotFound:
					return failf(operationCode(control.CodeNotFound), "%s", showInstead.Replace(oneLine(err.Error())))
				case err != nil:
					return err
				case dead.Effect != nil:
					return shown(s, dead.Effect, s.showEffect)
				}
				return shown(s, dead.Event, s.showEvent)
			})
		},
	}
}

// showInstead replaces the text of the API with the command that shows an effect or event that is
// not a dead letter.
var showInstead = strings.NewReplacer("show it as an effect", "`oncegate effects show` shows it", "show it as an event", "`oncegate events show` shows it")

// parseIDs parses the ids of effects and events from the command line.
func parseIDs(args []string) ([]inbox.ID, error) {
	ids := make([]inbox.ID, len(args))
	for i, arg := range args {
		var err error
		if ids[i], err = inbox.ParseID(arg); err != nil {
			return nil, usagef("%q is not an id; `oncegate dead list` shows them", clean(arg))
		}
	}
	return ids, nil
}
