package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/app"
)

// The bounds of one `effects resolve` by filter.
const (
	defaultResolves = 1000
	maxResolves     = 100_000
)

// unknownFlags narrow the effects whose outcome is unknown.
type unknownFlags struct {
	list            listFlags
	target, tillEnd string
	all, dryRun     bool
	max             int
}

func (f *unknownFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.list.source, "source", "", "only this source")
	f.list.addTenant(cmd)
	flags.StringVar(&f.list.kind, "type", "", "only this event type")
	flags.StringVar(&f.list.route, "route", "", "only this route")
	flags.StringVar(&f.target, "target", "", "only this target")
	flags.StringVar(&f.list.state, "state", "", "only this state; all of them are indeterminate")
	f.list.addSince(cmd, "received ")
	flags.StringVar(&f.tillEnd, "until", "", "only those received before: a duration before now or an instant")
	flags.BoolVar(&f.all, "all", false, "every indeterminate effect there is")
	flags.BoolVar(&f.dryRun, "dry-run", false, "count those that a filter finds, and change nothing")
	flags.IntVar(&f.max, "max", defaultResolves, "do nothing if more match")
	f.list.limit = 1
}

// filter reads the flags; one says that an effect is named by its id.
func (f *unknownFlags) filter(one bool) (inbox.UnknownFilter, error) {
	var out inbox.UnknownFilter
	since, _, err := f.list.parse([]string{string(inbox.EffectIndeterminate)})
	if err != nil {
		return out, err
	}
	until, err := parseInstant("--until", f.tillEnd)
	if err != nil {
		return out, err
	}
	out = inbox.UnknownFilter{Source: f.list.source, Tenant: f.list.tenant, Type: f.list.kind, Route: f.list.route, Target: f.target, Since: since, Until: until}
	switch named := !out.IsZero() || f.all || f.list.state != ""; {
	case one && (named || f.dryRun):
		return out, usagef("name one effect by its id, or many by a filter, not both; --dry-run is for filters")
	case !one && !named:
		return out, usagef("name an effect by its id or a filter such as --route, or say --all; `oncegate effects list --state indeterminate` shows them")
	case !until.IsZero() && until.Before(since):
		return out, usagef("--until is before --since: nothing could match")
	case f.max < 1 || f.max > maxResolves:
		return out, usagef("--max %d: must be from 1 to %d", f.max, maxResolves)
	}
	return out, nil
}

// resolveDry counts what a filter finds.
func (s *shell) resolveDry(cmd *cobra.Command, filter inbox.UnknownFilter) error {
	return s.read(cmd, func(ctx context.Context, lister *inbox.Lister) error {
		groups, err := lister.UnknownGroups(ctx, filter)
		if err != nil {
			return err
		}
		matched := 0
		for _, g := range groups.Data {
			matched += g.Count
		}
		if s.output == "json" {
			return s.json(map[string]any{"matched": matched, "groups": groups.Data})
		}
		if matched > 0 {
			s.unknownGroupTable(groups.Data).write(s.out, s.width())
		}
		fmt.Fprintf(s.out, "%s would be resolved\n", plural(matched, "indeterminate effect", "indeterminate effects"))
		return nil
	})
}

func (s *shell) resolveMany(cmd *cobra.Command, filter inbox.UnknownFilter, most int, r inbox.ResolveMany, d decision) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := s.openForChange(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	lister := inbox.NewLister(pool)
	if r.Effects, err = lister.Unknown(ctx, filter, most+1); err != nil {
		return err
	}
	switch n := len(r.Effects); {
	case n > most:
		return &failure{text: fmt.Sprintf("more than %d match and nothing was changed; narrow the filter or raise --max", most)}
	case n > 0:
		if err := s.typedMany(ctx, lister, filter, r, d); err != nil {
			return err
		}
	}
	out, err := s.doResolve(ctx, pool, r)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if s.output == "json" {
		err = s.json(out)
	} else {
		what := "done now"
		if r.As == inbox.ResolveResend {
			what = "sent again"
		}
		fmt.Fprintf(s.out, "%s %s\n", plural(out.Resolved, "effect", "effects"), what)
		if out.Changed > 0 {
			fmt.Fprintf(s.out, "%d had changed since they were counted and were left alone\n", out.Changed)
		}
		if out.CalledAgain > 0 {
			fmt.Fprintf(s.out, "%d stay: a later call repeats their operation, so decide each by its id (`effects list --state indeterminate`)\n", out.CalledAgain)
		}
	}
	if out.Gone > 0 && s.output != "json" {
		fmt.Fprintf(s.out, "%d stay: their routes are gone and nobody would carry them out (`oncegate routes list`); resolve them as --done, or configure the route again\n", out.Gone)
	}
	if rest := len(r.Effects) - out.Looked(); rest > 0 {
		return tryLaterf("interrupted: %s not looked at; the same command goes on with them", plural(rest, "effect was", "effects were"))
	}
	return err
}

// typedMany has the decision typed with its count, by somebody who has seen where the effects are.
func (s *shell) typedMany(ctx context.Context, lister *inbox.Lister, filter inbox.UnknownFilter, r inbox.ResolveMany, d decision) error {
	if d.yes {
		return nil
	}
	groups, err := lister.UnknownGroups(ctx, filter)
	if err != nil {
		return err
	}
	return s.confirm(d, fmt.Sprintf("%s %d", r.As, len(r.Effects)), func() {
		s.unknownGroupTable(groups.Data).write(s.err, s.width())
		if r.As == inbox.ResolveResend {
			fmt.Fprintln(s.err, "Whatever of this has happened at its target will happen twice.")
		}
	})
}

func (s *shell) doResolve(ctx context.Context, pool *pgxpool.Pool, r inbox.ResolveMany) (inbox.ResolvedMany, error) {
	keys, err := s.keyring() // what was sent has the Message-IDs that are kept as the results
	if err != nil {
		return inbox.ResolvedMany{}, err
	}
	store, err := app.NewStore(pool, keys)
	if err != nil {
		return inbox.ResolvedMany{}, err
	}
	bar := s.progress(int64(len(r.Effects)), "resolving")
	defer bar.done()
	r.Progress = func(done, _ int) { bar.at(int64(done)) }
	return store.ResolveMany(ctx, r)
}

func (s *shell) unknownGroupTable(groups []inbox.UnknownGroup) *table {
	t := &table{
		header: []string{"COUNT", "SOURCE", "ROUTE", "TARGET", "FIRST SENT", "LAST SENT", "EXAMPLE"},
		spare:  []string{"FIRST SENT", "SOURCE"}, ids: []string{"EXAMPLE"}, whole: []string{"COUNT", "FIRST SENT", "LAST SENT"},
	}
	for _, g := range groups {
		count := inbox.Count(g.Count)
		if g.More {
			count = inbox.MaxCount + 1
		}
		t.add(count.String(), g.Source, g.Route, g.Target, s.tableClock(g.First), s.tableClock(g.Last), g.Example.String())
	}
	return t
}

// unknownBeneath says what a list of dead letters does not hold: outcomes that nobody knows. It
// says nothing in JSON, where `effects resolve --dry-run` tells them.
func (s *shell) unknownBeneath(ctx context.Context, lister *inbox.Lister, f inbox.DeadFilter) error {
	if s.output != "table" || f.Reason != "" || f.ErrorClass != "" || f.EventID != "" || f.Text != "" {
		return nil
	}
	groups, err := lister.UnknownGroups(ctx, inbox.UnknownFilter{
		Source: f.Source, Tenant: f.Tenant, Type: f.Type, Route: f.Route, Target: f.Target, Since: f.Since, Until: f.Until,
	})
	if err != nil || len(groups.Data) == 0 {
		return err
	}
	n := 0
	for _, g := range groups.Data {
		n += g.Count
	}
	fmt.Fprintf(s.out, "\n%s, which no replay takes by itself; look at the target, then `oncegate effects resolve`:\n\n",
		plural(n, "unknown outcome (indeterminate)", "unknown outcomes (indeterminate)"))
	s.unknownGroupTable(groups.Data).write(s.out, s.width())
	return nil
}
