package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) routesCommand() *cobra.Command {
	return group("routes", "List routes with their backlog, pause or resume them, and clear those that are gone",
		append([]*cobra.Command{s.routesListCommand(), s.routesDiscardCommand(), s.routesMoveCommand()}, s.routePauseCommands()...)...)
}

func (s *shell) routesListCommand() *cobra.Command {
	return newList(s, &control.ListRoutes, &routeColumns, &cobra.Command{
		Short: "List every route with its unsettled effects",
		Long: "List every route that a server was ever started with, and how many of its effects are not settled.\n" +
			"A route is gone if the server that started last does not have it and no live process works on it.\n" +
			"Its effects wait until the route is configured again, or until you discard or move them.",
	}).Command
}

var routeColumns = columns[read.RouteBacklog]{
	header: []string{"SOURCE", "ROUTE", "TARGET", "GONE", "WAITING", "CLAIMED", "DEAD", "INDETERMINATE", "OLDEST", "PAUSED"},
	spare:  []string{"TARGET", "CLAIMED", "OLDEST"}, ids: []string{"SOURCE", "ROUTE"}, whole: []string{"WAITING", "OLDEST"},
	cells: func(r *read.RouteBacklog) []any {
		return []any{r.Source, r.Route, r.Target, onlyIf(r.Gone, "gone"), r.Waiting, r.Claimed, r.Dead, r.Indeterminate, r.Oldest, pauseCell(r.Paused)}
	},
}

// checkRoute reads the route that a command clears, and checks its flags.
func (s *shell) checkRoute(arg string, r *control.DiscardRouteRequest, d *decision, question string) error {
	var err error
	if r.Source, r.Route, err = parseRoute(arg); err != nil {
		return err
	}
	if err := checkMax(r.Max); err != nil || r.DryRun {
		return err
	}
	if err := d.check(s, question); err != nil {
		return err
	}
	r.Reason = d.reason
	return nil
}

func (s *shell) routesDiscardCommand() *cobra.Command {
	var d decision
	r := control.DiscardRouteRequest{Max: decide.DefaultDiscards}
	cmd := &cobra.Command{
		Use: "discard <source>/<route>", Short: "Discard what waits for a route that is gone", Args: cobra.ExactArgs(1),
		Long: "Decide that what waits for a route that is gone will not happen. The effects become skipped, each\n" +
			"with an entry in the audit. Discard dead letters with `dead discard --route`.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.checkRoute(args[0], &r, &d, control.DiscardRoute.Why); err != nil {
				return err
			}
			return s.clearRoute(cmd.Context(), onDatabase{actor: d.actor}, control.MoveRouteRequest{DiscardRouteRequest: r}, d, "discarded")
		},
	}
	requestFlags(cmd, &r)
	d.add(cmd)
	return cmd
}

func (s *shell) routesMoveCommand() *cobra.Command {
	var d decision
	r := control.MoveRouteRequest{DiscardRouteRequest: control.DiscardRouteRequest{Max: decide.DefaultDiscards}}
	cmd := &cobra.Command{
		Use: "move <source>/<route> --to <route>", Short: "Move what waits for a route that is gone to another route", Args: cobra.ExactArgs(1),
		Long: "Move what waits for a route that is gone to another route of the same source. The effects keep\n" +
			"their idempotency keys. If the other route has another target, only effects that certainly never\n" +
			"happened move. Items of lists and effects with a place in a sequence stay. Each move has an entry\n" +
			"in the audit.",
		Example: "  oncegate routes move stripe/billing --to billing-eu --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.To == "" {
				return usagef("--to is missing: which route of the same source should carry them out?")
			}
			if err := s.checkRoute(args[0], &r.DiscardRouteRequest, &d, control.MoveRoute.Why); err != nil {
				return err
			}
			if r.To == r.Route {
				return usagef("--to %s is the route itself: name another one", clean(r.To))
			}
			return s.clearRoute(cmd.Context(), onDatabase{actor: d.actor, settings: (*shell).load}, r, d, "moved")
		},
	}
	requestFlags(cmd, &r)
	d.add(cmd)
	return cmd
}

// clearRoute counts the effects that wait for a route, asks the user to confirm the count, and
// clears them in batches.
func (s *shell) clearRoute(ctx context.Context, on onDatabase, ask control.MoveRouteRequest, d decision, done string) error {
	return s.controlWith(ctx, on, func(caller control.Caller) (err error) {
		var sum decide.ClearedRoute
		sum.Matched, err = s.decideMany(d, ask.DryRun, confirmOf(&ask), "clearing", nothing, func(seen control.Seen) (found batch, err error) {
			r := ask
			r.Seen, r.DryRun = seen, seen == ""
			var out control.ClearedRoute
			if r.To == "" {
				out, err = control.Call(ctx, caller, &control.DiscardRoute, r.DiscardRouteRequest)
			} else {
				out, err = control.Call(ctx, caller, &control.MoveRoute, r)
			}
			if err == nil && seen != "" {
				sum.Cleared, sum.Left = sum.Cleared+out.Cleared, sum.Left+out.Stay
			}
			return batch{out.Matched, out.Left, out.Seen}, routeProblem(err, &ask)
		})
		if err != nil {
			return err
		}
		return s.showCleared(sum, ask.DryRun, done)
	})
}

// confirmOf returns what a person types to clear a route.
func confirmOf(r *control.MoveRouteRequest) string {
	if r.To == "" {
		return control.DiscardRoute.Confirm
	}
	return control.MoveRoute.Confirm
}

// routeProblem describes a problem with a route in terms of the command line.
func routeProblem(err error, ask *control.MoveRouteRequest) error {
	name := clean(ask.Source + "/" + ask.Route)
	switch problemCode(err) { //nolint:exhaustive // other errors have sufficient messages
	case control.CodeInvalid:
		text := oneLine(err.Error())
		if about, ok := strings.CutPrefix(text, "to: "); ok {
			text = "--to " + about
		}
		return refusef(operationCode(control.CodeInvalid), "%s", clean(text))
	case control.CodeNotFound:
		return failf(operationCode(control.CodeNotFound), "no server was ever started with route %s, or with the one named by --to; `oncegate routes list` shows them", name)
	case control.CodeRouteKnown:
		return failf(operationCode(control.CodeRouteKnown), "route %s is not gone: the servers carry its effects out; nothing was changed", name)
	case control.CodeRouteGone:
		return failf(operationCode(control.CodeRouteGone), "route %s is gone too: start a server with it first; nothing was changed", clean(ask.To))
	case control.CodeBound:
		return failf(operationCode(control.CodeBound), "more than %d effects wait for %s and nothing was changed; raise --max", ask.Max, name)
	}
	return err
}

func (s *shell) showCleared(out decide.ClearedRoute, dryRun bool, done string) error {
	if s.output == "json" {
		return s.json(out)
	}
	if dryRun {
		fmt.Fprintf(s.out, "%s would be %s, as far as they can be\n", plural(out.Matched, "effect", "effects"), done)
		return nil
	}
	fmt.Fprintf(s.out, "%s %s\n", plural(out.Cleared, "effect", "effects"), done)
	if out.Left > 0 {
		fmt.Fprintf(s.out, "%d stay: they changed meanwhile, may have happened, or have a place in a list or a sequence\n", out.Left)
	}
	return nil
}
