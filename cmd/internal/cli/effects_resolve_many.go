package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// unknownFlags are the flags that select effects with an unknown outcome.
type unknownFlags struct {
	many  control.ResolveEffectsRequest
	file  string
	state string
	read  func() error
}

func (f *unknownFlags) add(cmd *cobra.Command) {
	f.many.Max = decide.DefaultDiscards
	requestFlags(cmd, &f.many)
	cmd.Flags().StringVar(&f.file, "ids", "", "only the effects of this `file`: one id on each line, or the output of effects list as jsonl or csv; - is stdin")
	cmd.Flags().StringVar(&f.state, "state", "", "only this state; all of them are indeterminate")
	restrict(cmd, "state", []string{string(inbox.EffectIndeterminate)})
	f.read = requestFlags(cmd, &f.many.Filter)
}

// request returns the request that the flags describe. one is true if the command names an effect by its id.
func (f *unknownFlags) request(s *shell, one bool) (r control.ResolveEffectsRequest, err error) {
	if err := f.read(); err != nil {
		return r, err
	}
	r = f.many
	switch named := r.Filter != (control.UnknownFilter{}) || r.All || f.state != ""; {
	case f.file != "" && (named || one):
		return r, usagef("--ids says which: leave out ids and filters")
	case f.file != "":
		if r.IDs, err = s.readIDs(f.file); err != nil {
			return r, err
		}
		return r, checkMax(r.Max)
	case one && (named || r.DryRun):
		return r, usagef("name one effect by its id, or many by a filter, not both; --dry-run is for filters")
	case !one && !named:
		return r, usagef("name an effect by its id or a filter such as --route, or --ids FILE, or say --all; `oncegate effects list --state indeterminate` shows them")
	}
	r.All = r.Filter == (control.UnknownFilter{})
	return r, checkMax(r.Max)
}

// resolveIDsDry shows how many of the effects that ids name have an unknown outcome.
func (s *shell) resolveIDsDry(ctx context.Context, r control.ResolveEffectsRequest) error {
	return s.control(ctx, "", func(caller control.Caller) error {
		found, err := control.Call(ctx, caller, &control.ResolveEffects, r)
		if err != nil {
			return tooMany(err, r.Max)
		}
		if s.output == "json" {
			return s.json(struct {
				Matched   int              `json:"matched"`
				Unmatched int              `json:"unmatched"`
				Examples  []read.EffectRow `json:"examples"`
			}{found.Matched, found.Unmatched, emptyList(found.Examples)})
		}
		if found.Matched > 0 {
			effectColumns.table(s, found.Examples).write(s.out, s.width())
		}
		fmt.Fprintf(s.out, "%s would be resolved\n", plural(found.Matched, "indeterminate effect", "indeterminate effects"))
		s.sayUnmatched(found.Unmatched)
		return nil
	})
}

// sayUnmatched says how many ids name no effect with an unknown outcome.
func (s *shell) sayUnmatched(n int) {
	if n > 0 {
		fmt.Fprintf(s.err, "oncegate: %s no effect with an unknown outcome: it does not exist, or is decided already\n", plural(n, "id names", "ids name"))
	}
}

// resolveDry counts the effects that match a filter.
func (s *shell) resolveDry(ctx context.Context, filter control.UnknownFilter) error {
	return s.control(ctx, "", func(caller control.Caller) error {
		found, matched, err := countUnknown(ctx, caller, filter)
		if err != nil {
			return err
		}
		if s.output == "json" {
			return s.json(struct {
				Matched    int                 `json:"matched"`
				Groups     []read.UnknownGroup `json:"groups"`
				SearchedTo *time.Time          `json:"searched_to,omitempty"`
			}{matched, found.Data, found.SearchedTo})
		}
		if matched > 0 {
			unknownGroupColumns.table(s, found.Data).write(s.out, s.width())
		}
		fmt.Fprintf(s.out, "%s%s would be resolved\n", atLeast(found.SearchedTo), plural(matched, "indeterminate effect", "indeterminate effects"))
		s.sayUncounted("unknown outcomes", found.SearchedTo)
		return nil
	})
}

// countUnknown counts the effects with an unknown outcome. It counts all if SearchedTo is nil.
func countUnknown(ctx context.Context, caller control.Caller, f control.UnknownFilter) (found read.Page[read.UnknownGroup], matched int, err error) {
	found, err = control.Call(ctx, caller, &control.GroupIndeterminates, control.GroupIndeterminatesRequest(f))
	for i := range found.Data {
		matched += found.Data[i].Count
	}
	return found, matched, err
}

// atLeast begins a count that may not be complete.
func atLeast(searchedTo *time.Time) string {
	if searchedTo == nil {
		return ""
	}
	return "at least "
}

// sayUncounted says that counts are lower bounds, and which rows they do not include, because the search ran out of time.
func (s *shell) sayUncounted(what string, searchedTo *time.Time) {
	if searchedTo != nil {
		fmt.Fprintf(s.err, "oncegate: the counts are lower bounds, because the search ran out of time: %s before %s are not counted; narrow it, for example with --source, to count all\n", what, clock(*searchedTo))
	}
}

// resolveMany finds the effects, asks the user to confirm the decision and the count, and resolves
// them in batches. If the user interrupts it, it finishes the current batch and shows the counts so far.
func (s *shell) resolveMany(ctx context.Context, r control.ResolveEffectsRequest, d decision) error {
	interrupted, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return s.controlWith(ctx, onDatabase{actor: d.actor, changes: true}, func(caller control.Caller) error {
		var sum decide.ResolvedMany
		var found control.ResolvedEffects
		matched, err := s.decideMany(d, false, string(r.As), "resolving", func() {
			if len(r.IDs) > 0 {
				effectColumns.table(s, found.Examples).write(s.err, s.width())
			} else {
				unknownGroupColumns.table(s, found.Groups).write(s.err, s.width())
			}
			if r.As == decide.ResolveResend {
				fmt.Fprintln(s.err, "Whatever of this has happened at its target will happen twice.")
			}
		}, func(seen control.Seen) (batch, error) {
			request, within := control.ResolveEffectsRequest{Explained: r.Explained, As: r.As, Seen: seen}, ctx
			switch {
			case seen == "":
				request, within = r, interrupted
				request.As, request.DryRun = "", true
			case interrupted.Err() != nil:
				return batch{}, nil //nolint:nilerr // the user interrupted it, and the caller shows the counts so far
			}
			out, err := control.Call(within, caller, &control.ResolveEffects, request)
			if seen == "" {
				found = out
				s.sayUnmatched(out.Unmatched)
			}
			sum = decide.ResolvedMany{
				Resolved: sum.Resolved + out.Resolved, Changed: sum.Changed + out.Changed, CalledAgain: sum.CalledAgain + out.CalledAgain, Gone: sum.Gone + out.Gone,
			}
			return batch{out.Matched, out.Left, out.Seen}, tooMany(err, r.Max)
		})
		if err != nil {
			return err
		}
		if err := s.showResolvedMany(sum, r.As); err != nil {
			return err
		}
		if rest := matched - sum.Looked(); rest > 0 {
			return errorf(errorcode.Unfinished, "interrupted: %s not looked at; the same command continues with them", plural(rest, "effect was", "effects were"))
		}
		return nil
	})
}

func (s *shell) showResolvedMany(out decide.ResolvedMany, as decide.Resolution) error {
	if s.output == "json" {
		return s.json(out)
	}
	what := "done now"
	if as == decide.ResolveResend {
		what = "sent again"
	}
	fmt.Fprintf(s.out, "%s %s\n", plural(out.Resolved, "effect", "effects"), what)
	if out.Changed > 0 {
		fmt.Fprintf(s.out, "%d had changed since they were counted and were left alone\n", out.Changed)
	}
	if out.CalledAgain > 0 {
		fmt.Fprintf(s.out, "%d stay: a later call repeats their operation, so decide each by its id (`effects list --state indeterminate`)\n", out.CalledAgain)
	}
	if out.Gone > 0 {
		fmt.Fprintf(s.out, "%d stay: their routes are gone and no process would carry them out (`oncegate routes list`); resolve them as --done, or configure the route again\n", out.Gone)
	}
	return nil
}

var unknownGroupColumns = columns[read.UnknownGroup]{
	header: []string{"COUNT", "SOURCE", "ROUTE", "TARGET", "FIRST SENT", "LAST SENT", "EXAMPLE"},
	spare:  []string{"FIRST SENT", "SOURCE"}, ids: []string{"EXAMPLE"}, whole: []string{"COUNT", "FIRST SENT", "LAST SENT"},
	cells: func(g *read.UnknownGroup) []any {
		return []any{read.CountOf(g.Count, g.More), g.Source, g.Route, g.Target, g.First, g.Last, g.Example}
	},
}

// unknownBeneath prints the unknown outcomes after a list of dead letters, because they are not in
// the list. It prints nothing in JSON, where `effects resolve --dry-run` shows them.
func (s *shell) unknownBeneath(ctx context.Context, caller control.Caller, f *control.DeadLetterFilter) error {
	if s.output != "table" || f.Reason != "" || f.ErrorClass != "" || f.EventID != "" || f.Text != "" {
		return nil
	}
	found, n, err := countUnknown(ctx, caller, control.UnknownFilter{
		TenantFilter: f.TenantFilter, Source: f.Source, Type: f.Type, Route: f.Route, Target: f.Target, Since: f.Since, Until: f.Until,
	})
	if err != nil {
		return err
	}
	if len(found.Data) > 0 {
		fmt.Fprintf(s.out, "\n%s%s, which no replay takes by itself; look at the target, then `oncegate effects resolve`:\n\n",
			atLeast(found.SearchedTo), plural(n, "unknown outcome (indeterminate)", "unknown outcomes (indeterminate)"))
		unknownGroupColumns.table(s, found.Data).write(s.out, s.width())
	}
	s.sayUncounted("unknown outcomes", found.SearchedTo)
	return nil
}
