package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/config"
	"github.com/oncegate/oncegate/inbox"
)

// listFlags are what all lists are narrowed by.
type listFlags struct {
	source, kind, state, route, since, before string
	limit                                     int
}

func (f *listFlags) add(cmd *cobra.Command, states string) {
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "only of this source")
	flags.StringVar(&f.kind, "type", "", "only of this event type")
	flags.StringVar(&f.state, "state", "", "only in this state: "+states)
	flags.StringVar(&f.route, "route", "", "only with an effect of this route")
	flags.StringVar(&f.since, "since", "", "only received since: a duration before now (2h, 7d) or an instant (2026-11-20T12:00:00Z)")
	flags.StringVar(&f.before, "before", "", "the page after this id")
	flags.IntVar(&f.limit, "limit", 50, "size of the page, at most 1000")
}

func (f *listFlags) parse(states []string) (since time.Time, before inbox.ID, err error) {
	if f.limit < 1 || f.limit > 1000 {
		return since, before, usagef("--limit %d: must be from 1 to 1000", f.limit)
	}
	if f.state != "" && !slices.Contains(states, f.state) {
		return since, before, usagef("--state %q is unknown; known are %s", f.state, strings.Join(states, ", "))
	}
	if since, err = parseInstant("--since", f.since); err != nil {
		return since, before, err
	}
	if f.before != "" {
		if before, err = inbox.ParseID(f.before); err != nil {
			return since, before, usagef("--before %q: not an id", f.before)
		}
	}
	return since, before, nil
}

// parseInstant reads a duration before now or an instant; nothing is no time.
func parseInstant(flag, text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if ago, err := config.ParseDuration(text); err == nil {
		return time.Now().Add(-ago), nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return at, usagef("%s %q: neither a duration such as 2h nor an instant such as 2026-11-20T12:00:00Z", flag, text)
	}
	return at, nil
}

func effectStates() []string {
	return []string{"pending", "claimed", "retry", "held", "done", "dead", "indeterminate", "superseded", "skipped", "duplicate"}
}

func admissions() []string { return []string{"unusable", "beyond_retention", "unrouted"} }

func (s *shell) eventsCommand() *cobra.Command {
	var f listFlags
	states := append(effectStates(), admissions()...)
	list := &cobra.Command{
		Use: "list", Short: "List events, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, before, err := f.parse(states)
			if err != nil {
				return err
			}
			return showPage(s, cmd, f.limit, func(ctx context.Context, lister *inbox.Lister) ([]inbox.EventRow, error) {
				return lister.Events(ctx, inbox.EventFilter{
					Source: f.source, Type: f.kind, State: f.state, Route: f.route, Since: since, Before: before, Limit: f.limit,
				})
			}, func(rows []inbox.EventRow) *table {
				t := &table{header: []string{"RECEIVED", "SOURCE", "TYPE", "EVENT ID", "DELIVERIES", "EFFECTS", "ID"}, spare: []string{"ID", "DELIVERIES"}, whole: []string{"EVENT ID", "RECEIVED"}}
				for _, row := range rows {
					effects := row.Effects
					if row.Admission != "ok" {
						effects = row.Admission
					}
					t.add(s.tableClock(row.ReceivedAt), row.Source, row.Type, row.EventID, fmt.Sprint(row.Deliveries), effects, row.ID.String())
				}
				return t
			}, func(row inbox.EventRow) inbox.ID { return row.ID })
		},
	}
	f.add(list, strings.Join(states, ", "))
	var body bool
	show := &cobra.Command{
		Use: "show <id | source/event-id>", Short: "Show one event with its effects", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pool, err := s.openPool(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			keys, err := s.keyring()
			if err != nil {
				return err
			}
			lister := inbox.NewLister(pool).WithKeyring(keys)
			event, err := lister.Event(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if body {
				bytes, err := lister.Body(cmd.Context(), event.ID)
				if err != nil {
					return err
				}
				_, err = s.out.Write(bytes)
				return err
			}
			return s.showEvent(event)
		},
	}
	show.Flags().BoolVar(&body, "body", false, "write the exact body, and nothing else")
	return group("events", "List or show recorded events", list, show)
}

func (s *shell) showEvent(e *inbox.EventDetail) error {
	if s.output == "json" {
		e.EffectRows = emptyList(e.EffectRows)
		return s.json(e)
	}
	kept := "kept"
	switch {
	case e.Erased():
		kept = "erased"
	case !e.BodyKept:
		kept = "pruned"
	}
	conflicts, replay := "", ""
	if e.Conflicts > 0 {
		conflicts = fmt.Sprintf("%d, last %s, in %s", e.Conflicts, optional(e.ConflictAt), strings.Join(e.ConflictPaths, ", "))
	}
	if e.SuspectedReplay {
		replay = "suspected: the same body was recorded under another id"
	}
	page(s.out, []pair{
		{"event", e.ID.String()},
		{"key", e.Source + "/" + e.EventID},
		{"provider", e.Provider},
		{"type", e.Type},
		{"received", clock(e.ReceivedAt)},
		{"occurred", optional(e.OccurredAt)},
		{"admission", e.Admission},
		{"why", e.AdmissionDetail},
		{"deliveries", fmt.Sprint(e.Deliveries)},
		{"last", optional(e.LastDeliveryAt)},
		{"conflicts", conflicts},
		{"replay", replay},
		{"class", e.Class},
		{"body", fmt.Sprintf("%d bytes, %s, sha256 %s", e.BodyLength, kept, e.BodySHA256)},
	})
	if len(e.EffectRows) == 0 {
		return nil
	}
	fmt.Fprintln(s.out)
	effectTable(e.EffectRows, false).write(s.out, s.width())
	return nil
}

func effectTable(rows []inbox.EffectRow, withEvent bool) *table {
	t := &table{header: []string{"ROUTE", "TARGET", "STATE", "REASON", "ATTEMPTS", "CODE", "NEXT", "ID"}, spare: []string{"TARGET", "NEXT", "CODE", "TYPE", "ATTEMPTS", "SOURCE"}, whole: []string{"ID"}}
	if withEvent {
		t.header = append([]string{"SOURCE", "TYPE", "EVENT ID"}, t.header...)
	}
	for _, row := range rows {
		cells := []string{row.Route, row.Target, row.State, row.Reason, fmt.Sprint(row.Attempts), row.Code, optional(row.NextAt), row.ID.String()}
		if withEvent {
			cells = append([]string{row.Source, row.Type, row.EventID}, cells...)
		}
		t.add(cells...)
	}
	return t
}

func (s *shell) effectsCommand() *cobra.Command {
	var f listFlags
	list := &cobra.Command{
		Use: "list", Short: "List effects, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, before, err := f.parse(effectStates())
			if err != nil {
				return err
			}
			return showPage(s, cmd, f.limit, func(ctx context.Context, lister *inbox.Lister) ([]inbox.EffectRow, error) {
				return lister.Effects(ctx, inbox.EffectFilter{
					Source: f.source, Type: f.kind, State: f.state, Route: f.route, Since: since, Before: before, Limit: f.limit,
				})
			}, func(rows []inbox.EffectRow) *table {
				return effectTable(rows, true)
			}, func(row inbox.EffectRow) inbox.ID { return row.ID })
		},
	}
	f.add(list, strings.Join(effectStates(), ", "))
	show := &cobra.Command{
		Use: "show <id>", Short: "Show one effect with its attempts", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := inbox.ParseID(args[0])
			if err != nil {
				return usagef("%q is not an effect's id; `oncegate effects list` shows them", clean(args[0]))
			}
			pool, err := s.openPool(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			keys, err := s.keyring()
			if err != nil {
				return err
			}
			effect, err := inbox.NewLister(pool).WithKeyring(keys).Effect(cmd.Context(), id)
			if err != nil {
				return err
			}
			return s.showEffect(effect)
		},
	}
	return group("effects", "List, show or resolve effects", list, show, s.resolveCommand())
}

func (s *shell) showEffect(e *inbox.EffectDetail) error {
	if s.output == "json" {
		e.AttemptRows = emptyList(e.AttemptRows)
		return s.json(e)
	}
	rearms, duplicateOf := "", ""
	if e.Rearms > 0 {
		rearms = fmt.Sprint(e.Rearms)
	}
	if e.DuplicateOf != nil {
		duplicateOf = e.DuplicateOf.String()
	}
	page(s.out, []pair{
		{"effect", e.ID.String()},
		{"event", e.Event.String()},
		{"key", e.Source + "/" + e.EventID},
		{"type", e.Type},
		{"route", fmt.Sprintf("%s, version %d", e.Route, e.RouteVersion)},
		{"target", e.Target},
		{"state", e.State},
		{"reason", e.Reason},
		{"attempts", fmt.Sprint(e.Attempts)},
		{"code", e.Code},
		{"idempotency key", e.Key},
		{"send started", optional(e.SendStartedAt)},
		{"lease until", optional(e.LeaseUntil)},
		{"next", optional(e.NextAt)},
		{"finished", optional(e.FinishedAt)},
		{"re-armed", rearms},
		{"duplicate of", duplicateOf},
	})
	if len(e.AttemptRows) == 0 {
		return nil
	}
	t := &table{header: []string{"ATTEMPT", "TRIGGER", "STARTED", "TOOK", "OUTCOME", "CODE", "KEY", "SAID"}, spare: []string{"KEY"}}
	for _, a := range e.AttemptRows {
		t.add(fmt.Sprint(a.Attempt), a.Trigger, clock(a.StartedAt), a.FinishedAt.Sub(a.StartedAt).Round(time.Millisecond).String(), a.Outcome, a.Code, recognised(a.Recognised), a.Excerpt)
	}
	fmt.Fprintln(s.out)
	t.write(s.out, s.width())
	return nil
}

// recognised is what the target said about the key.
func recognised(yes bool) string {
	if yes {
		return "recognised"
	}
	return ""
}

// showPage reads one page of rows from the database, shows it, and says how to get
// the next one.
func showPage[Row, Cursor any](s *shell, cmd *cobra.Command, limit int, read func(context.Context, *inbox.Lister) ([]Row, error),
	draw func([]Row) *table, id func(Row) Cursor,
) error {
	pool, err := s.openPool(cmd.Context())
	if err != nil {
		return err
	}
	defer pool.Close()
	rows, err := read(cmd.Context(), inbox.NewLister(pool))
	if err != nil {
		return err
	}
	if err := s.show(draw(rows), emptyList(rows)); err != nil {
		return err
	}
	return s.more(len(rows), limit, func() any { return id(rows[len(rows)-1]) })
}

// more says how to get the next page, where a person reads the table.
func (s *shell) more(rows, limit int, last func() any) error {
	if s.output == "table" && rows == limit {
		fmt.Fprintf(s.err, "oncegate: there may be more: add --before %v\n", last())
	}
	return nil
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// tableClock leaves the year out where the terminal is narrow.
func (s *shell) tableClock(t time.Time) string {
	if n := s.width(); n > 0 && n < 120 {
		return t.UTC().Format("01-02 15:04:05Z")
	}
	return clock(t)
}

func optional(t *time.Time) string {
	if t == nil {
		return ""
	}
	return clock(*t)
}

// emptyList makes an empty JSON list of nothing.
func emptyList[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}
