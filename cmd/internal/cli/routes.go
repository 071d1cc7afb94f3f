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
	return group("routes", "List routes with their backlog, and clear those that are gone",
		s.routesListCommand(), s.routesDiscardCommand(), s.routesMoveCommand())
}

func (s *shell) routesListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List every route with its unsettled effects", Args: cobra.NoArgs,
		Long: "List every route that a server was ever started with, and how many of its effects are not settled.\n" +
			"A route is gone if the server that started last does not have it and no live process works on it.\n" +
			"Its effects wait until the route is configured again, or until you discard or move them.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				routes, err := control.Call(cmd.Context(), caller, &control.ListRoutes, control.ListRoutesRequest{})
				if err != nil {
					return err
				}
				return showRows(s, cmd, routes.Data, s.routeTable, nil)
			})
		},
	}
}

func (s *shell) routeTable(routes []read.RouteBacklog) *table {
	t := &table{
		header: []string{"SOURCE", "ROUTE", "TARGET", "GONE", "WAITING", "CLAIMED", "DEAD", "INDETERMINATE", "OLDEST"},
		spare:  []string{"TARGET", "CLAIMED", "OLDEST"}, ids: []string{"SOURCE", "ROUTE"}, whole: []string{"WAITING", "OLDEST"},
	}
	for i := range routes {
		r := &routes[i]
		gone := ""
		if r.Gone {
			gone = "gone"
		}
		t.add(r.Source, r.Route, r.Target, gone, fmt.Sprint(r.Waiting), fmt.Sprint(r.Claimed), fmt.Sprint(r.Dead), fmt.Sprint(r.Indeterminate), s.tableClockOf(r.Oldest))
	}
	return t
}

// clearFlags are the flags of both commands that clear a route.
type clearFlags struct {
	decision decision
	ask      control.MoveRouteRequest
}

func (f *clearFlags) add(cmd *cobra.Command) {
	f.decision.add(cmd)
	cmd.Flags().BoolVar(&f.ask.DryRun, "dry-run", false, "count them and change nothing")
	cmd.Flags().IntVar(&f.ask.Max, "max", decide.DefaultDiscards, "do nothing if more match")
}

func (f *clearFlags) check(s *shell, arg, question string) error {
	var ok bool
	if f.ask.Source, f.ask.Route, ok = strings.Cut(arg, "/"); !ok || f.ask.Source == "" || f.ask.Route == "" {
		return usagef("%q is not a route: write <source>/<route>; `oncegate routes list` shows them", clean(arg))
	}
	if f.ask.Max < 1 || f.ask.Max > decide.MaxDiscards {
		return usagef("--max %d: must be from 1 to %d", f.ask.Max, decide.MaxDiscards)
	}
	if f.ask.DryRun {
		return nil
	}
	if err := f.decision.check(s, question); err != nil {
		return err
	}
	f.ask.Reason = f.decision.reason
	return nil
}

func (s *shell) routesDiscardCommand() *cobra.Command {
	var f clearFlags
	cmd := &cobra.Command{
		Use: "discard <source>/<route>", Short: "Discard what waits for a route that is gone", Args: cobra.ExactArgs(1),
		Long: "Decide that what waits for a route that is gone will not happen. The effects become skipped, each\n" +
			"with an entry in the audit. Discard dead letters with `dead discard --route`.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(s, args[0], "why need they not happen?"); err != nil {
				return err
			}
			return s.clearRoute(cmd.Context(), onDatabase{actor: f.decision.actor}, &f, "discard", "discarded")
		},
	}
	f.add(cmd)
	return cmd
}

func (s *shell) routesMoveCommand() *cobra.Command {
	var f clearFlags
	cmd := &cobra.Command{
		Use: "move <source>/<route> --to <route>", Short: "Move what waits for a route that is gone to another route", Args: cobra.ExactArgs(1),
		Long: "Move what waits for a route that is gone to another route of the same source. The effects keep\n" +
			"their idempotency keys. If the other route has another target, only effects that certainly never\n" +
			"happened move. Items of lists and effects with a place in a sequence stay. Each move has an entry\n" +
			"in the audit.",
		Example: "  oncegate routes move stripe/billing --to billing-eu --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.ask.To == "" {
				return usagef("--to is missing: which route of the same source should carry them out?")
			}
			if err := f.check(s, args[0], "why do they move?"); err != nil {
				return err
			}
			if f.ask.To == f.ask.Route {
				return usagef("--to %s is the route itself: name another one", clean(f.ask.To))
			}
			return s.clearRoute(cmd.Context(), onDatabase{actor: f.decision.actor, settings: s.load}, &f, "move", "moved")
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.ask.To, "to", "", "the route of the same source that carries them out")
	return cmd
}

// clearRoute counts the effects that wait for a route, asks the user to confirm the count, and
// clears them in batches.
func (s *shell) clearRoute(ctx context.Context, on onDatabase, f *clearFlags, verb, done string) error {
	return s.controlWith(ctx, on, func(caller control.Caller) error {
		clearSome := func(r control.MoveRouteRequest) (control.ClearedRoute, error) {
			if r.To == "" {
				return control.Call(ctx, caller, &control.DiscardRoute, r.DiscardRouteRequest)
			}
			return control.Call(ctx, caller, &control.MoveRoute, r)
		}
		count := f.ask
		count.DryRun = true
		found, err := clearSome(count)
		if err != nil {
			return routeProblem(err, &f.ask)
		}
		sum := decide.ClearedRoute{Matched: found.Matched}
		if !f.ask.DryRun && found.Matched > 0 {
			if err := s.confirm(f.decision, fmt.Sprintf("%s %d", verb, found.Matched), func() {}); err != nil {
				return err
			}
			bar := s.progress(int64(found.Matched), "clearing")
			defer bar.done()
			for next := f.ask; found.Seen != ""; {
				next.Seen = found.Seen
				if found, err = clearSome(next); err != nil {
					return routeProblem(err, &f.ask)
				}
				sum.Cleared, sum.Left = sum.Cleared+found.Cleared, sum.Left+found.Stay
				bar.at(int64(sum.Matched - found.Left))
			}
			bar.done()
		}
		return s.showCleared(sum, f.ask.DryRun, done)
	})
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
		return usagef("%s", clean(text))
	case control.CodeNotFound:
		return &failure{text: fmt.Sprintf("no server was ever started with route %s, or with the one named by --to; `oncegate routes list` shows them", name)}
	case control.CodeRouteKnown:
		return &failure{text: fmt.Sprintf("route %s is not gone: the servers carry its effects out; nothing was changed", name)}
	case control.CodeRouteGone:
		return &failure{text: fmt.Sprintf("route %s is gone too: start a server with it first; nothing was changed", clean(ask.To))}
	case control.CodeBound:
		return &failure{text: fmt.Sprintf("more than %d effects wait for %s and nothing was changed; raise --max", ask.Max, name)}
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
