package cli

import (
	"cmp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) targetsCommand() *cobra.Command {
	return group("targets", "List the targets with what waits for them", s.targetsListCommand())
}

// targetRow is a target with the number of its effects, over all routes.
type targetRow struct {
	Target        string     `json:"target"`
	Routes        []string   `json:"routes"`
	Waiting       int        `json:"waiting"`
	Claimed       int        `json:"claimed"`
	Dead          int        `json:"dead"`
	Indeterminate int        `json:"indeterminate"`
	Oldest        *time.Time `json:"oldest,omitempty"`
}

func (s *shell) targetsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List every target with its unsettled effects", Args: cobra.NoArgs,
		Long: "List every target that a route leads to, and how many effects wait for it, are dead, or have an unknown\n" +
			"outcome, over all its routes. OLDEST is when the event of the oldest effect that waits was received.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				page, err := control.Call(cmd.Context(), caller, &control.ListRoutes, control.ListRoutesRequest{})
				if err != nil {
					return err
				}
				return showRows(s, cmd, &targetColumns, targetsOf(page.Data))
			})
		},
	}
}

// targetsOf sums the routes by target and sorts the targets by name.
func targetsOf(routes []read.RouteBacklog) []targetRow {
	sums := map[string]*targetRow{}
	for i := range routes {
		r := &routes[i]
		sum := sums[r.Target]
		if sum == nil {
			sum = &targetRow{Target: r.Target}
			sums[r.Target] = sum
		}
		sum.Routes = append(sum.Routes, r.Source+"/"+r.Route)
		sum.Waiting, sum.Claimed = sum.Waiting+r.Waiting, sum.Claimed+r.Claimed
		sum.Dead, sum.Indeterminate = sum.Dead+r.Dead, sum.Indeterminate+r.Indeterminate
		if r.Oldest != nil && (sum.Oldest == nil || r.Oldest.Before(*sum.Oldest)) {
			sum.Oldest = r.Oldest
		}
	}
	var out []targetRow
	for _, sum := range sums {
		out = append(out, *sum)
	}
	slices.SortFunc(out, func(a, b targetRow) int { return cmp.Compare(a.Target, b.Target) })
	return out
}

var targetColumns = columns[targetRow]{
	header: []string{"TARGET", "WAITING", "CLAIMED", "DEAD", "INDETERMINATE", "OLDEST", "ROUTES"},
	spare:  []string{"ROUTES", "CLAIMED"}, ids: []string{"TARGET"}, whole: []string{"OLDEST"},
	cells: func(r *targetRow) []any {
		return []any{r.Target, r.Waiting, r.Claimed, r.Dead, r.Indeterminate, r.Oldest, r.Routes}
	},
}
