package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) resolveCommand() *cobra.Command {
	var done, resend bool
	var d decision
	var one control.ResolveEffectRequest
	var f unknownFlags
	cmd := &cobra.Command{
		Use:   "resolve [id]",
		Short: "Resolve effects whose outcome is unknown",
		Long: "Resolve effects whose outcome is unknown: --done if they happened, --resend to send them again. Look at\n" +
			"the target first. Name one effect by its id, or many by a filter or by a file with ids; --dry-run counts\n" +
			"them. To compare with the records of a target, write the effects to a file with\n" +
			"`oncegate effects list --state indeterminate --all --output csv`: it has the key and the time of each send.\n" +
			"Keep the rows that the target knows, and give the file to --ids.\n\n" +
			"On a terminal you type the decision with the number of effects; elsewhere the command needs --yes. Each\n" +
			"effect has its own entry in the audit, with the actor and the reason. If a run is interrupted, the same\n" +
			"command continues with the rest.",
		Example: "  oncegate effects resolve 0199a000-0000-7000-8000-000000000000 --done --reason 'found it in the bank statement'\n" +
			"  oncegate effects resolve --route billing --since 12h --dry-run\n" +
			"  oncegate effects resolve --route billing --since 12h --resend --reason 'billing has none of them'\n" +
			"  oncegate effects resolve --ids found.csv --done --reason 'in the bank statement'",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) > 0 {
				if one.ID, err = inbox.ParseID(args[0]); err != nil {
					return usagef("%q is not an effect's id; `oncegate effects list --state indeterminate` shows them", clean(args[0]))
				}
			}
			many, err := f.request(s, len(args) > 0)
			if err != nil {
				return err
			}
			if done == resend && (done || !many.DryRun) {
				return usagef("say either --done or --resend")
			}
			if one.CalledAgain && (!resend || len(args) == 0) {
				return usagef("--called-again goes with --resend and an effect's id")
			}
			switch {
			case many.DryRun && len(many.IDs) > 0:
				return s.resolveIDsDry(cmd.Context(), many)
			case many.DryRun:
				return s.resolveDry(cmd.Context(), many.Filter)
			}
			if err := d.check(s, control.ResolveEffect.Why); err != nil {
				return err
			}
			one.As = decide.ResolveDone
			if resend {
				one.As = decide.ResolveResend
			}
			one.Reason, many.Reason, many.As = d.reason, d.reason, one.As
			if len(args) > 0 {
				return s.resolve(cmd.Context(), one, d)
			}
			return s.resolveMany(cmd.Context(), many, d)
		},
	}
	cmd.Flags().BoolVar(&done, "done", false, "the effects happened: nothing more is sent")
	cmd.Flags().BoolVar(&resend, "resend", false, "send it again: it happens twice if it had happened")
	requestFlags(cmd, &one)
	f.add(cmd)
	d.add(cmd)
	return cmd
}

// resolve shows one effect and records the decision about it.
func (s *shell) resolve(ctx context.Context, r control.ResolveEffectRequest, d decision) error {
	return s.controlWith(ctx, onDatabase{actor: d.actor, changes: true}, func(caller control.Caller) error {
		effect, err := control.Call(ctx, caller, &control.ShowEffect, control.IDRequest{ID: r.ID})
		if err != nil {
			return err
		}
		if effect.State == string(inbox.EffectDead) {
			return errorf(errorcode.WrongState, "effect %s is dead, not indeterminate: there is nothing to resolve; replay it for new attempts", r.ID)
		}
		if effect.State != string(inbox.EffectIndeterminate) {
			return errorf(errorcode.WrongState, "effect %s is %s, not indeterminate: there is nothing to resolve", r.ID, effect.State)
		}
		if err := s.confirm(d, string(r.As), func() { s.showUnresolved(effect, r.As) }); err != nil {
			return err
		}
		r.IfMatch = effect.Tag()
		out, err := control.Call(ctx, caller, &control.ResolveEffect, r)
		switch code := problemCode(err); {
		case code == control.CodeCalledAgain:
			return failf(operationCode(control.CodeCalledAgain), "effect %s: a later call names its operation as its parent and may have done the same; look at it, then add --called-again", r.ID)
		case code == control.CodeRouteGone:
			return failf(operationCode(control.CodeRouteGone), "effect %s: route %s/%s is gone, so no process would send it; configure the route again and start a server with it, or say --done",
				r.ID, clean(effect.Source), clean(effect.Route))
		case err != nil:
			return err
		}
		if s.output == "json" {
			return s.json(out)
		}
		what := "is done now"
		if r.As == decide.ResolveResend {
			what = "is sent again"
		}
		fmt.Fprintf(s.out, "effect %s %s\n", r.ID, what)
		return nil
	})
}

func (s *shell) showUnresolved(e *control.Effect, as decide.Resolution) {
	page(s.err, []pair{
		{"effect", e.ID.String()}, {"key", e.Source + "/" + e.EventID}, {"type", e.Type}, {"route", e.Route}, {"target", e.Target},
		{"reason", e.Reason}, {"attempts", fmt.Sprint(e.Attempts)}, {"send started", timeOrEmpty(e.SendStartedAt)},
	})
	if as == decide.ResolveResend {
		fmt.Fprintf(s.err, "If it has happened at %s, it will happen twice.\n", clean(e.Target))
	}
}
