package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) streamsCommand() *cobra.Command {
	return group("streams", "List, show, apply, skip or unblock what ordered routes hold",
		s.streamsListCommand(), s.streamsShowCommand(), s.streamsApplyCommand(), s.streamsSkipCommand(), s.streamsUnblockCommand())
}

func (s *shell) streamsListCommand() *cobra.Command {
	var r control.ListStreamsRequest
	var pages pageFlags
	var undecided bool
	cmd := &cobra.Command{
		Use: "list", Short: "List streams, newest first", Args: cobra.NoArgs,
		Long: "List the streams of ordered routes, newest first: the number up to which each is applied, the number of\n" +
			"waiting effects, and the reason. --blocked and --gap together show every stream that does not move.\n" +
			"--undecided lists instead the effects that are held for a person: those without a key or a number, or\n" +
			"with the number of another one. End their wait with `oncegate streams apply` or `oncegate streams skip`.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := pages.check(); err != nil {
				return err
			}
			held := control.ListUndecidedRequest{TenantFilter: r.TenantFilter, Source: r.Source, Route: r.Route, Key: r.Key, Limit: pages.limit}
			if undecided && (r.Blocked || r.Gap || pages.after != "" || pages.all) {
				return usagef("--undecided lists effects: leave out --blocked, --gap, --after and --all")
			}
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				if undecided {
					return s.listUndecided(cmd, caller, held)
				}
				err := listPagesOf(s, cmd, caller, &pages, func(ctx context.Context, caller control.Caller, p control.PageRequest) (read.Page[control.Stream], error) {
					r.PageRequest = p
					return control.Call(ctx, caller, &control.ListStreams, r)
				}, s.streamTable, streamEntry)
				if err != nil || s.output == "json" {
					return err
				}
				return s.hintUndecided(cmd.Context(), caller, held)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.Source, "source", "", "only this source")
	flags.StringVar(&r.Tenant, "tenant", "", "only streams with an effect of this tenant")
	flags.StringVar(&r.Route, "route", "", "only this route")
	flags.StringVar(&r.Key, "key", "", "only the stream with exactly this sequence key, even if the key was erased")
	flags.BoolVar(&r.Blocked, "blocked", false, "only streams that a dead or indeterminate effect blocks")
	flags.BoolVar(&r.Gap, "gap", false, "only those that wait for a missing number")
	flags.BoolVar(&undecided, "undecided", false, "the effects that are held for a person, oldest first")
	pages.add(cmd)
	return cmd
}

func (s *shell) streamTable(rows []control.Stream) *table {
	t := &table{
		header: []string{"STARTED", "SOURCE", "ROUTE", "KEY", "APPLIED", "HELD", "UNDECIDED", "GAP SINCE", "BLOCKED BY", "IN FLIGHT", "ID"},
		spare:  []string{"IN FLIGHT"}, ids: []string{"KEY", "BLOCKED BY", "IN FLIGHT", "ID"}, whole: []string{"STARTED", "GAP SINCE", "HELD"},
	}
	for i := range rows {
		row := &rows[i]
		gap := ""
		if row.GapSince != nil {
			gap = s.tableClock(*row.GapSince)
		}
		t.add(s.tableClock(row.StartedAt), row.Source, row.Route, streamKey(row.Key, row.KeyMissing), row.Applied, heldCount(row.Held), heldCount(row.Undecided), gap, optionalID(row.BlockedBy), optionalID(row.InFlight), fmt.Sprint(row.ID))
	}
	return t
}

func streamEntry(row *control.Stream) listEntry {
	ids := map[string]string{kindStream: fmt.Sprint(row.ID)}
	if row.BlockedBy != nil {
		ids[kindEffect] = row.BlockedBy.String()
	}
	return listEntry{IDs: ids, Name: row.Source + "/" + row.Route}
}

// streamKey returns the key of a stream, or the reason why it is not shown. The readable key is
// deleted when one of the stream's events is erased.
func streamKey(key string, missing int32) string {
	switch {
	case missing != 0:
		return fmt.Sprintf("(sealed with key %d)", missing)
	case key == "":
		return "(not kept)"
	}
	return key
}

// heldCount formats a count, with + if counting stopped at the limit.
func heldCount(n int) string {
	if n >= read.MaxHeld {
		return fmt.Sprintf("%d+", n)
	}
	return fmt.Sprint(n)
}

func optionalID(id *inbox.ID) string {
	if id == nil {
		return ""
	}
	return id.String()
}

func (s *shell) streamsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <id | source/route/key>", Short: "Show what one stream waits for", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				stream, err := control.Call(cmd.Context(), caller, &control.ShowStream, control.StreamReference{Ref: args[0]})
				if err != nil {
					return err
				}
				return s.showStream(stream)
			})
		},
	}
}

func (s *shell) showStream(d *control.StreamDetail) error {
	if s.output == "json" {
		return s.json(d)
	}
	page(s.out, streamPairs(d))
	s.sayHidden(d.PayloadHidden)
	if len(d.Waiting) == 0 {
		return nil
	}
	fmt.Fprintln(s.out)
	t := &table{header: []string{"NUMBER", "STATE", "TYPE", "EVENT ID", "REASON", "NEXT", "EFFECT"}, spare: []string{"NEXT", "TYPE"}, ids: []string{"EVENT ID", "EFFECT"}, whole: []string{"NUMBER"}}
	for i := range d.Waiting {
		e := &d.Waiting[i]
		t.add(e.Number, e.State, e.Type, e.EventID, e.Reason, s.tableClockOf(e.NextAt), e.ID.String())
	}
	t.write(s.out, s.width())
	return nil
}

// streamPairs returns what the user needs to know before a decision.
func streamPairs(d *control.StreamDetail) []pair {
	return []pair{
		{"stream", fmt.Sprint(d.ID)},
		{"route", d.Source + "/" + d.Route},
		{"key", streamKey(d.Key, d.KeyMissing)},
		{"applied", d.Applied},
		{"held", heldCount(d.Held)},
		{"undecided", heldCount(d.Undecided)},
		{"gap since", timeOrEmpty(d.GapSince)},
		{"missing", missing(d)},
		{"blocked by", streamEffect(d.BlockedByEffect, d.BlockedBy)},
		{"in flight", streamEffect(d.InFlightEffect, d.InFlight)},
		{"started", clock(d.StartedAt)},
		{"updated", clock(d.UpdatedAt)},
	}
}

// missing returns the missing numbers for which the stream waits.
func missing(d *control.StreamDetail) string {
	if d.MissingFrom == d.MissingTo {
		return d.MissingFrom
	}
	return d.MissingFrom + " to " + d.MissingTo
}

func streamEffect(e *read.StreamEffect, id *inbox.ID) string {
	if e == nil {
		return optionalID(id)
	}
	parts := []string{e.ID.String(), e.State}
	if e.Reason != "" {
		parts = append(parts, e.Reason)
	}
	if e.Number != "" {
		parts = append(parts, "number "+e.Number)
	}
	return strings.Join(append(parts, "event "+e.EventID), ", ")
}
