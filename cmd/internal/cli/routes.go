package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/app"
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
			"Its effects wait until the route is configured again, or until somebody discards or moves them.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.read(cmd, func(ctx context.Context, lister *inbox.Lister) error {
				routes, err := lister.RouteBacklogs(ctx)
				if err != nil {
					return err
				}
				return showRows(s, cmd, routes, s.routeTable, nil)
			})
		},
	}
}

func (s *shell) routeTable(routes []inbox.RouteBacklog) *table {
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

// clearFlags are what both ways of clearing a route take.
type clearFlags struct {
	decision decision
	ask      inbox.ClearRoute
}

func (f *clearFlags) add(cmd *cobra.Command) {
	f.decision.add(cmd)
	cmd.Flags().BoolVar(&f.ask.DryRun, "dry-run", false, "count them and change nothing")
	cmd.Flags().IntVar(&f.ask.Max, "max", inbox.DefaultDiscards, "do nothing if more match")
}

func (f *clearFlags) check(s *shell, arg, question string) error {
	var ok bool
	if f.ask.Source, f.ask.Route, ok = strings.Cut(arg, "/"); !ok || f.ask.Source == "" || f.ask.Route == "" {
		return usagef("%q is not a route: write <source>/<route>; `oncegate routes list` shows them", clean(arg))
	}
	if f.ask.Max < 1 || f.ask.Max > inbox.MaxDiscards {
		return usagef("--max %d: must be from 1 to %d", f.ask.Max, inbox.MaxDiscards)
	}
	if f.ask.DryRun {
		return nil
	}
	if err := f.decision.check(s, question); err != nil {
		return err
	}
	f.ask.Actor, f.ask.Reason = f.decision.actor, f.decision.reason
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
			return s.clearRoute(cmd, f, "discard", "discarded")
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
			if err := s.unordered(f.ask.Source, f.ask.To); err != nil {
				return err
			}
			return s.clearRoute(cmd, f, "move", "moved")
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.ask.To, "to", "", "the route of the same source that carries them out")
	return cmd
}

// unordered refuses to move effects into a sequence: places there are given when events
// come.
func (s *shell) unordered(source, route string) error {
	cfg, err := s.loadConfig()
	if err != nil {
		return err
	}
	for _, src := range cfg.Sources {
		for _, r := range src.Routes {
			if src.Name != source || r.Name != route {
				continue
			}
			if r.Order.Ordered() {
				return usagef("--to %s has an order, and places in a sequence are given when events come: name a route without one", clean(route))
			}
			return nil
		}
	}
	return usagef("--to %s: the configuration has no such route of source %s", clean(route), clean(source))
}

func (s *shell) clearRoute(cmd *cobra.Command, f clearFlags, verb, done string) error {
	pool, err := s.openPool(cmd.Context())
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := app.NewStore(pool, nil)
	if err != nil {
		return err
	}
	count := f.ask
	count.DryRun = true
	out, err := store.ClearRoute(cmd.Context(), count)
	if err == nil && !f.ask.DryRun && out.Matched > 0 {
		if err := s.confirm(f.decision, fmt.Sprintf("%s %d", verb, out.Matched), func() {}); err != nil {
			return err
		}
		f.ask.Seen = out.Seen
		bar := s.progress(int64(out.Matched), "clearing")
		f.ask.Progress = func(done, _ int) { bar.at(int64(done)) }
		out, err = store.ClearRoute(cmd.Context(), f.ask)
		bar.done()
	}
	name := clean(f.ask.Source + "/" + f.ask.Route)
	switch {
	case errors.Is(err, inbox.ErrNotFound):
		return &failure{text: fmt.Sprintf("no server was ever started with route %s, or with the one named by --to; `oncegate routes list` shows them", name)}
	case errors.Is(err, inbox.ErrRouteKnown):
		return &failure{text: fmt.Sprintf("route %s is not gone: the servers carry its effects out; nothing was changed", name)}
	case errors.Is(err, inbox.ErrRouteGone):
		return &failure{text: fmt.Sprintf("route %s is gone too: start a server with it first; nothing was changed", clean(f.ask.To))}
	case errors.Is(err, inbox.ErrBound):
		return &failure{text: fmt.Sprintf("more than %d effects wait for %s and nothing was changed; raise --max", f.ask.Max, name)}
	case err != nil:
		return err
	}
	if s.output == "json" {
		return s.json(out)
	}
	if f.ask.DryRun {
		fmt.Fprintf(s.out, "%s would be %s, as far as they can be\n", plural(out.Matched, "effect", "effects"), done)
		return nil
	}
	fmt.Fprintf(s.out, "%s %s\n", plural(out.Cleared, "effect", "effects"), done)
	if out.Left > 0 {
		fmt.Fprintf(s.out, "%d stay: they changed meanwhile, may have happened, or have a place in a list or a sequence\n", out.Left)
	}
	return nil
}
