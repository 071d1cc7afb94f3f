package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
)

func effectStates() []string {
	return []string{"pending", "claimed", "retry", "held", "done", "dead", "indeterminate", "superseded", "skipped", "duplicate"}
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
			return s.read(cmd, func(ctx context.Context, lister *inbox.Lister) error {
				effect, err := lister.Effect(ctx, id)
				if err != nil {
					return err
				}
				return s.showEffect(effect)
			})
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
