package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) targetsCommand() *cobra.Command {
	return group("targets", "List, show, test, pause or resume the targets",
		append([]*cobra.Command{s.targetsListCommand(), s.targetsShowCommand(), s.targetsTestCommand()},
			s.pauseCommands(&control.PauseTarget, &control.ResumeTarget, pause.Target, effectsWait)...)...)
}

func (s *shell) targetsListCommand() *cobra.Command {
	list := newList(s, &control.ListTargets, &targetColumns, &cobra.Command{
		Short: "List every target with its unsettled effects",
		Long: "List every target that a route leads to, and how many effects wait for it, are dead, or have an unknown\n" +
			"outcome, over all its routes. OLDEST is when the event of the oldest effect that waits was received.",
	})
	list.on.settings = (*shell).optionalConfig
	return list.Command
}

var targetColumns = columns[control.Target]{
	header: []string{"TARGET", "WAITING", "CLAIMED", "DEAD", "INDETERMINATE", "OLDEST", "PAUSED", "ROUTES"},
	spare:  []string{"ROUTES", "CLAIMED"}, ids: []string{"TARGET"}, whole: []string{"OLDEST"},
	cells: func(r *control.Target) []any {
		return []any{r.Name, r.Waiting, r.Claimed, r.Dead, r.Indeterminate, r.Oldest, pauseCell(r.Paused), r.Routes}
	},
}

func (s *shell) targetsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <name>", Short: "Show one target with its routes", Args: cobra.ExactArgs(1),
		Long: "Show one target with its routes, what waits for them, and whether it is paused.",
		RunE: func(cmd *cobra.Command, args []string) error {
			on := onDatabase{settings: (*shell).optionalConfig}
			return answer(s, cmd, on, &control.ShowTarget, control.TargetReference{Name: args[0]}, func(t *control.TargetDetail) error {
				pairs := []pair{
					{"target", t.Name}, {"kind", t.Kind}, {"address", t.Address}, {"paused", pausedLine(t.Paused)},
					{"waiting", plural(t.Waiting, "effect", "effects")},
				}
				if t.Oldest != nil {
					pairs = append(pairs, pair{"oldest", clock(*t.Oldest)})
				}
				pairs = append(pairs, pair{"dead", plural(t.Dead, "effect", "effects")}, pair{"unknown outcomes", plural(t.Indeterminate, "effect", "effects")})
				if t.NextTry != nil {
					pairs = append(pairs, pair{"next try", clock(*t.NextTry)})
				}
				if n := t.Attempts.Done + t.Attempts.Retried + t.Attempts.Dead + t.Attempts.Indeterminate; n > 0 {
					pairs = append(pairs, pair{"failed", fmt.Sprintf("%.0f %% of %s in the last hour", 100*t.Failed, plural(int(n), "attempt", "attempts"))})
				}
				for i := range t.Waits {
					e := &t.Waits[i]
					pairs = append(pairs, pair{"waits", clean(e.Source+"/"+e.Route+" "+e.ID.String()) + ": " + clean(e.Waits)})
				}
				for i := range t.Backlogs {
					r := &t.Backlogs[i]
					text := clean(r.Source+"/"+r.Route) + ": " + plural(r.Waiting, "effect waits", "effects wait")
					if r.Paused != nil && r.Paused.Kind == pause.Route {
						text += ", " + pausedLine(r.Paused)
					}
					pairs = append(pairs, pair{"route", text})
				}
				page(s.out, pairs)
				return nil
			})
		},
	}
}
