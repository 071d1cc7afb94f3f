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
	var undecided bool
	list := newList(s, &control.ListStreams, &streamColumns, &cobra.Command{
		Short: "List streams, newest first",
		Long: "List the streams of ordered routes, newest first: the number up to which each is applied, the number of\n" +
			"waiting effects, and the reason. --blocked and --gap together show every stream that does not move.\n" +
			"--undecided lists instead the effects that are held for a person: those without a key or a number, or\n" +
			"with the number of another one. End their wait with `oncegate streams apply` or `oncegate streams skip`.",
	})
	list.Command.Flags().BoolVar(&undecided, "undecided", false, "the effects that are held for a person, oldest first")
	r, pages := &list.request, &list.pages
	list.check = func([]string) error {
		if undecided && (r.Blocked || r.Gap || pages.after != "" || pages.all) {
			return usagef("--undecided lists effects: leave out --blocked, --gap, --after and --all")
		}
		return nil
	}
	held := func() control.ListUndecidedRequest {
		return control.ListUndecidedRequest{TenantFilter: r.TenantFilter, Source: r.Source, Route: r.Route, Key: r.Key, Limit: pages.limit}
	}
	list.instead = func(_ context.Context, caller control.Caller) (bool, error) {
		if !undecided {
			return false, nil
		}
		return true, s.listUndecided(list.Command, caller, held())
	}
	list.below = func(caller control.Caller, _ []control.Stream) error {
		return s.hintUndecided(list.Command.Context(), caller, held())
	}
	return list.Command
}

var streamColumns = columns[control.Stream]{
	header: []string{"STARTED", "SOURCE", "ROUTE", "KEY", "APPLIED", "HELD", "UNDECIDED", "GAP SINCE", "BLOCKED BY", "IN FLIGHT", "ID"},
	spare:  []string{"IN FLIGHT"}, ids: []string{"KEY", "BLOCKED BY", "IN FLIGHT", "ID"}, whole: []string{"STARTED", "GAP SINCE", "HELD"},
	cells: func(row *control.Stream) []any {
		return []any{
			row.StartedAt, row.Source, row.Route, streamKey(row.Key, row.KeyMissing), row.Applied, heldCount(row.Held), heldCount(row.Undecided),
			row.GapSince, row.BlockedBy, row.InFlight, row.ID,
		}
	},
	entry: func(row *control.Stream) listEntry {
		ids := map[string]string{kindStream: fmt.Sprint(row.ID)}
		if row.BlockedBy != nil {
			ids[kindEffect] = row.BlockedBy.String()
		}
		return listEntry{IDs: ids, Name: row.Source + "/" + row.Route}
	},
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
			return answer(s, cmd, onDatabase{}, &control.ShowStream, control.StreamReference{Ref: args[0]}, s.showStream)
		},
	}
}

func (s *shell) showStream(d *control.StreamDetail) error {
	page(s.out, streamPairs(d))
	s.sayHidden(d.PayloadHidden)
	if len(d.Waiting) == 0 {
		return nil
	}
	fmt.Fprintln(s.out)
	waitingColumns.table(s, d.Waiting).write(s.out, s.width())
	return nil
}

var waitingColumns = columns[read.StreamEffect]{
	header: []string{"NUMBER", "STATE", "TYPE", "EVENT ID", "REASON", "NEXT", "EFFECT"},
	spare:  []string{"NEXT", "TYPE"}, ids: []string{"EVENT ID", "EFFECT"}, whole: []string{"NUMBER"},
	cells: func(e *read.StreamEffect) []any {
		return []any{e.Number, e.State, e.Type, e.EventID, e.Reason, e.NextAt, e.ID}
	},
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
