package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/visible"
)

func (s *shell) deadCommand() *cobra.Command {
	return group("dead", "List, show, replay or discard dead letters",
		s.deadListCommand(), s.deadShowCommand(), s.deadReplayCommand(), s.deadDiscardCommand())
}

// deadFlags filter dead letters, for commands that list them and commands that act on them.
type deadFlags struct {
	list                                     listFlags
	target, reason, class, text, id, tillEnd string
}

func (f *deadFlags) add(cmd *cobra.Command) {
	classes := make([]string, 0, len(read.ErrorClasses()))
	for _, c := range read.ErrorClasses() {
		classes = append(classes, string(c))
	}
	flags := cmd.Flags()
	flags.StringVar(&f.list.source, "source", "", "only this source")
	f.list.addTenant(cmd)
	flags.StringVar(&f.list.kind, "type", "", "only this event type")
	flags.StringVar(&f.list.route, "route", "", "only this route")
	flags.StringVar(&f.target, "target", "", "only this target")
	flags.StringVar(&f.reason, "dead-reason", "", "only this reason, such as attempts_exhausted; for events: unusable, beyond_retention")
	flags.StringVar(&f.class, "error-class", "", "only this class of errors: "+strings.Join(classes, ", "))
	flags.StringVar(&f.text, "text", "", "only where a message of the last attempt contains this")
	flags.StringVar(&f.id, "event-id", "", "only this event id of the sender")
	f.list.addSince(cmd, "received ")
	flags.StringVar(&f.tillEnd, "until", "", "only those received before: a duration before now or an instant")
	f.list.limit = 1
}

func (f *deadFlags) filter() (control.DeadLetterFilter, error) {
	var out control.DeadLetterFilter
	if f.class != "" && !slices.Contains(read.ErrorClasses(), read.ErrorClass(f.class)) {
		return out, usagef("--error-class %q is unknown; `oncegate dead list --help` names them", clean(f.class))
	}
	if _, known := reasons.Reason(f.reason).Known(); f.reason != "" && !known && !slices.Contains(control.Admissions(), f.reason) {
		return out, usagef("--dead-reason %q is no reason; `oncegate dead list --group` shows those there are", clean(f.reason))
	}
	since, err := f.list.parse(nil)
	if err != nil {
		return out, err
	}
	until, err := parseInstant("--until", f.tillEnd)
	if err != nil {
		return out, err
	}
	if !until.IsZero() && until.Before(since) {
		return out, usagef("--until is before --since: nothing could match")
	}
	return control.DeadLetterFilter{
		TenantFilter: control.TenantFilter{Tenant: f.list.tenant}, Source: f.list.source, Type: f.list.kind, Route: f.list.route, Target: f.target,
		Reason: f.reason, ErrorClass: read.ErrorClass(f.class), EventID: f.id, Text: f.text, Since: since, Until: until,
	}, nil
}

func (s *shell) deadListCommand() *cobra.Command {
	var f deadFlags
	var grouped bool
	var export string
	var pages pageFlags
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters, newest first, or grouped", Args: cobra.NoArgs,
		Long: "List dead letters, newest first: effects that did not happen and will not by themselves, and\n" +
			"events that were recorded as unusable or beyond_retention.\n\n" +
			"--group sums them up by what looks like one fault. Beneath, it counts unknown outcomes, which are\n" +
			"no dead letters (as JSON: `effects resolve --dry-run`). --export jsonl writes all of them, one\n" +
			"JSON object on each line.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter()
			if err != nil {
				return err
			}
			if err := pages.check(); err != nil {
				return err
			}
			if export != "" && export != "jsonl" {
				return usagef("--export %q is unknown; known is jsonl", clean(export))
			}
			if export != "" && grouped {
				return usagef("--export and --group exclude each other")
			}
			if _, err := f.list.parse(nil); err != nil {
				return err
			}
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				switch {
				case grouped:
					groups, err := control.Call(cmd.Context(), caller, &control.GroupDeadLetters, filter)
					if err != nil {
						return err
					}
					if err := showRows(s, cmd, groups.Data, s.deadGroupTable, deadGroupEntry); err != nil {
						return err
					}
					return s.unknownBeneath(cmd.Context(), caller, &filter)
				case export != "":
					return s.exportDead(cmd.Context(), caller, &filter)
				}
				return listPagesOf(s, cmd, caller, &pages, func(ctx context.Context, caller control.Caller, p control.PageRequest) (read.Page[control.DeadLetter], error) {
					return control.Call(ctx, caller, &control.ListDeadLetters, control.ListDeadLettersRequest{PageRequest: p, DeadLetterFilter: filter})
				}, s.deadTable, deadEntry)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&grouped, "group", false, "sum them up by source, route, reason and code")
	cmd.Flags().StringVar(&export, "export", "", "write all that match: jsonl")
	pages.add(cmd)
	return cmd
}

// exportDead writes the dead letters as it reads them, one JSON object per line.
func (s *shell) exportDead(ctx context.Context, caller control.Caller, filter *control.DeadLetterFilter) error {
	out := bufio.NewWriter(s.out)
	lines := json.NewEncoder(visible.NewWriter(out))
	lines.SetEscapeHTML(false)
	for r := (control.ListDeadLettersRequest{PageRequest: control.PageRequest{Limit: allPage}, DeadLetterFilter: *filter}); ; {
		page, err := control.Call(ctx, caller, &control.ListDeadLetters, r)
		if err != nil {
			return err
		}
		for i := range page.Data {
			if err := lines.Encode(&page.Data[i]); err != nil {
				return fmt.Errorf("writing json: %w", err)
			}
		}
		if r.After = page.Next; !page.HasMore {
			return out.Flush()
		}
	}
}

func (s *shell) deadTable(rows []control.DeadLetter) *table {
	t := &table{
		header: []string{"RECEIVED", "SOURCE", "TYPE", "EVENT ID", "ROUTE", "TARGET", "REASON", "CODE", "ATTEMPTS", "DIED", "SAID", "ID"},
		spare:  []string{"SAID", "TARGET", "ATTEMPTS", "DIED", "TYPE"}, ids: []string{"EVENT ID", "ID"}, whole: []string{"RECEIVED", "DIED", "CODE"},
	}
	for i := range rows {
		row := &rows[i]
		attempts := ""
		if row.Route != "" {
			attempts = fmt.Sprint(row.Attempts)
		}
		t.add(s.tableClock(row.ReceivedAt), row.Source, row.Type, row.EventID, row.Route, row.Target, cmp.Or(row.LastReason, row.Reason), row.Code, attempts,
			s.tableClockOf(row.DiedAt), cut(oneLine(row.Said), 80), row.ID.String())
	}
	return t
}

func deadEntry(row *control.DeadLetter) listEntry {
	ids := map[string]string{kindEvent: row.Event.String()}
	if row.Route != "" {
		ids[kindEffect] = row.ID.String()
	}
	return listEntry{IDs: ids, Name: strings.TrimSpace(row.Source + "/" + row.EventID + " " + row.Route)}
}

func (s *shell) deadGroupTable(groups []read.DeadGroup) *table {
	t := &table{
		header: []string{"COUNT", "SOURCE", "ROUTE", "TARGET", "REASON", "CODE", "FIRST", "LAST", "EXAMPLE"},
		spare:  []string{"TARGET", "FIRST"}, ids: []string{"EXAMPLE"}, whole: []string{"COUNT", "FIRST", "LAST"},
	}
	for _, g := range groups {
		t.add(fmt.Sprint(g.Count), g.Source, g.Route, g.Target, g.Reason, g.Code, s.tableClock(g.First), s.tableClock(g.Last), g.Example.String())
	}
	return t
}

func deadGroupEntry(g *read.DeadGroup) listEntry {
	if g.Route == "" {
		return listEntry{IDs: map[string]string{kindEvent: g.Example.String()}, Name: g.Source}
	}
	return listEntry{IDs: map[string]string{kindEffect: g.Example.String()}, Name: g.Source + "/" + g.Route}
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
					return &failure{text: showInstead.Replace(oneLine(err.Error()))}
				case err != nil:
					return err
				case dead.Effect != nil:
					return s.showEffect(dead.Effect)
				}
				return s.showEvent(dead.Event)
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
