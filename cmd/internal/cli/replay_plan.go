package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/control"
)

// planFlags are the flags that define a plan.
type planFlags struct {
	scope      control.ReplayScope
	readFilter func() error
	options    replay.Options
	file       string
}

func (f *planFlags) add(cmd *cobra.Command) {
	f.readFilter = deadFlags(cmd, &f.scope.Filter)
	requestFlags(cmd, &f.scope)
	flags := cmd.Flags()
	flags.StringVar(&f.file, "ids", "", "only the effects and events in this `file`: one id on each line, or the output of dead list --export jsonl; - is stdin")
	flags.BoolVar(&f.options.IncludeIndeterminate, "include-indeterminate", false, "include what may have happened; it may happen twice")
	flags.BoolVar(&f.options.IncludeDone, "include-done", false, "include what happened, with --new-key; it happens twice")
	flags.BoolVar(&f.options.IncludeDiscarded, "include-discarded", false, "include what was discarded")
	flags.BoolVar(&f.options.IncludeShadow, "include-shadow", false, "evaluate again what shadow mode skipped; nothing of it is sent")
	flags.BoolVar(&f.options.CarryOutShadow, "carry-out-shadow", false, "carry out what shadow mode skipped; it happens twice if another handler has done it")
	flags.BoolVar(&f.options.IncludeCalledAgain, "include-called-again", false, "include the one named effect although a later call repeats its operation; it may happen twice")
	flags.BoolVar(&f.options.NewRoutes, "new-routes", false, "also make effects for routes that take the events today and did not when they were received")
	flags.BoolVar(&f.options.NewKey, "new-key", false, "use new idempotency keys and render again; targets recognise nothing")
}

// read returns the scope of the flags, with the ids of the arguments and of the file.
func (f *planFlags) read(s *shell, args []string) (control.ReplayScope, error) {
	scope := f.scope
	err := f.readFilter()
	if err != nil {
		return scope, err
	}
	scope.Filter = f.scope.Filter
	if scope.IDs, err = parseIDs(args); err != nil {
		return scope, err
	}
	if f.file == "" {
		if len(scope.IDs) == 0 && scope.Filter == (control.DeadLetterFilter{}) && scope.RunScope == (control.RunScope{}) && !scope.All {
			return scope, errNoScope
		}
		return scope, nil
	}
	ids, err := s.readIDs(f.file)
	if err != nil {
		return scope, err
	}
	scope.IDs = append(scope.IDs, ids...)
	return scope, nil
}

var errNoScope = usagef("say which: ids, --ids FILE, --run, --label, a filter such as --source, or --all")

func (s *shell) replayPlanCommand() *cobra.Command {
	var f planFlags
	var d decision
	var c compareFlags
	var show int
	cmd := &cobra.Command{
		Use: "plan [id...]", Short: "Plan a replay without doing anything",
		Long: "Write down what a replay would do, and do nothing: which effects would get new attempts, which\n" +
			"are left out, and why. Name effects by ids or by a filter; there is no implicit everything. The\n" +
			"plan can be run for an hour with `replay run` and the digest that this command prints.\n\n" +
			"With --compare it plans nothing: it compares each step of a --run or of a --label with the request that\n" +
			"would be sent today, also if the step succeeded. The exit code is 0 only if all steps match.",
		Example: "  oncegate replay plan --source stripe --route billing --since 12h\n" +
			"  oncegate dead list --text 'no such customer' --export jsonl | oncegate replay plan --ids -\n" +
			"  oncegate replay plan --label order=1042\n" +
			"  oncegate replay plan --source agents --run 42 --compare",
		RunE: func(cmd *cobra.Command, args []string) error {
			if show < 0 || show > 1000 {
				return usagef("--show %d: must be from 0 to 1000", show)
			}
			if compare, err := c.asked(s, cmd, args, f.scope.RunScope); err != nil {
				return err
			} else if compare {
				if err := f.readFilter(); err != nil {
					return err
				}
				filter := &f.scope.Filter
				return s.compareRun(cmd, &c, control.CompareRunRequest{TenantFilter: filter.TenantFilter, RunScope: f.scope.RunScope, Source: filter.Source, Since: filter.Since})
			}
			scope, err := f.read(s, args)
			if err != nil {
				return err
			}
			if err := d.fillActor(s); err != nil {
				return err
			}
			r := control.PlanReplayRequest{Explained: control.Explained{Reason: d.reason}, ReplayScope: scope, Options: f.options}
			return s.planReplay(cmd.Context(), r, d, func(caller control.Caller, plan *control.Replay) error {
				if err := s.showReplay(cmd.Context(), caller, plan, show); err != nil {
					return err
				}
				if s.output == "table" && plan.Summary.ToDo > 0 {
					fmt.Fprintf(s.out, "\nnothing was done; to do it: oncegate replay run %s --digest %s --reason ...\n", plan.ID, plan.Digest[:replay.MinDigest])
				}
				return nil
			})
		},
	}
	f.add(cmd)
	c.add(cmd)
	cmd.Flags().StringVar(&d.reason, "reason", "", "why it is planned")
	cmd.Flags().StringVar(&d.actor, "actor", "", "who plans "+actorDefault)
	cmd.Flags().IntVar(&show, "show", 0, "show that many items, with their diffs")
	return cmd
}

// planReplay makes a plan, shows a progress bar, and reports errors of the request. It calls then
// with the plan.
func (s *shell) planReplay(ctx context.Context, r control.PlanReplayRequest, d decision, then func(control.Caller, *control.Replay) error) error {
	bar := s.progress(-1, "planning")
	on := onDatabase{actor: d.actor, settings: (*shell).plannedConfig, connections: planConnections, progress: bar}
	return s.controlWith(ctx, on, func(caller control.Caller) error {
		defer bar.done()
		planned, err := control.Call(ctx, caller, &control.PlanReplay, r)
		for _, warning := range planned.Warnings {
			fmt.Fprintln(s.err, "oncegate: "+clean(warning))
		}
		if err != nil {
			return refusedRequest(err)
		}
		plan := &control.Replay{Replay: planned.Replay}
		err = every(ctx, followEvery, func() (done bool, err error) { // a server continues to work on a large plan after its response
			if plan.State == replay.Planning {
				plan, err = control.Call(ctx, caller, &control.ShowReplay, control.IDRequest{ID: planned.ID})
			}
			return err == nil && plan.State != replay.Planning, err
		})
		bar.done()
		switch {
		case err != nil:
			return err
		case plan.State != replay.Planned:
			return errorf(errorcode.WrongState, "the plan %s was given up: it was cancelled, or the log of the server has the reason", plan.ID)
		}
		return then(caller, plan)
	})
}

func (s *shell) deadReplayCommand() *cobra.Command {
	var f planFlags
	var d decision
	var rate float32
	var dryRun, follow bool
	cmd := &cobra.Command{
		Use: "replay [id...]", Short: "Plan and run a replay of dead letters in one step",
		Long: "Plan a replay and run it. This is the short form of `replay plan` and `replay run`, with the same\n" +
			"rules. On a terminal the command shows the plan and asks for its digest; elsewhere it needs --yes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := f.read(s, args)
			if err != nil {
				return err
			}
			if err := checkRate(rate); err != nil {
				return err
			}
			if dryRun {
				err = d.fillActor(s)
			} else {
				err = d.check(s, control.ReplayDeadLetters.Why)
			}
			if err != nil {
				return err
			}
			why := control.Explained{Reason: d.reason}
			return s.planReplay(cmd.Context(), control.PlanReplayRequest{Explained: why, ReplayScope: scope, Options: f.options}, d, func(caller control.Caller, plan *control.Replay) error {
				if dryRun || plan.Summary.ToDo == 0 {
					return s.showReplay(cmd.Context(), caller, plan, 0)
				}
				return s.runReplay(cmd.Context(), caller, &plan.Replay, control.RunReplayRequest{Explained: why, ID: plan.ID, Rate: rate}, d, follow)
			})
		},
	}
	f.add(cmd)
	d.add(cmd)
	cmd.Flags().Float32Var(&rate, "rate", 0, "items a second at most; 0 is as many as live deliveries leave room for")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "make the plan and do not run it")
	cmd.Flags().BoolVar(&follow, "follow", false, "show how far it is until it ends")
	return cmd
}
