package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/app"
)

func (s *shell) resolveCommand() *cobra.Command {
	var done, resend, again bool
	var d decision
	var f unknownFlags
	cmd := &cobra.Command{
		Use:   "resolve [id]",
		Short: "Record what became of indeterminate effects",
		Long: "Record what became of effects whose outcome is unknown: --done if they happened, --resend to send\n" +
			"them again. Look at the target first. Name one effect by its id or many by a filter; --dry-run\n" +
			"counts them.\n\n" +
			"On a terminal you type the decision with the number of effects; elsewhere the command needs --yes.\n" +
			"Each effect has its own entry in the audit, with the actor and the reason. If a run is\n" +
			"interrupted, the same command goes on with the rest.",
		Example: "  oncegate effects resolve 0199a000-0000-7000-8000-000000000000 --done --reason 'found it in the bank statement'\n" +
			"  oncegate effects resolve --route billing --since 12h --dry-run\n" +
			"  oncegate effects resolve --route billing --since 12h --resend --reason 'billing has none of them'",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var id inbox.ID
			if len(args) > 0 {
				var err error
				if id, err = inbox.ParseID(args[0]); err != nil {
					return usagef("%q is not an effect's id; `oncegate effects list --state indeterminate` shows them", clean(args[0]))
				}
			}
			filter, err := f.filter(len(args) > 0)
			if err != nil {
				return err
			}
			if done == resend && (done || !f.dryRun) {
				return usagef("say either --done or --resend")
			}
			if again && (!resend || len(args) == 0) {
				return usagef("--called-again goes with --resend and an effect's id")
			}
			as := inbox.ResolveDone
			if resend {
				as = inbox.ResolveResend
			}
			if f.dryRun {
				return s.resolveDry(cmd, filter)
			}
			if err := d.check(s, "how do you know?"); err != nil {
				return err
			}
			if len(args) > 0 {
				return s.resolve(cmd, inbox.Resolve{Effect: id, As: as, CalledAgain: again, Reason: d.reason, Actor: d.actor}, d)
			}
			return s.resolveMany(cmd, filter, f.max, inbox.ResolveMany{As: as, Reason: d.reason, Actor: d.actor}, d)
		},
	}
	cmd.Flags().BoolVar(&done, "done", false, "the effects happened: nothing more is sent")
	cmd.Flags().BoolVar(&resend, "resend", false, "send it again: it happens twice if it had happened")
	cmd.Flags().BoolVar(&again, "called-again", false, "with --resend: although a later call repeats its operation")
	f.add(cmd)
	d.add(cmd)
	return cmd
}

func (s *shell) resolve(cmd *cobra.Command, r inbox.Resolve, d decision) error {
	pool, err := s.openForChange(cmd.Context())
	if err != nil {
		return err
	}
	defer pool.Close()
	effect, err := inbox.NewLister(pool).Effect(cmd.Context(), r.Effect)
	if err != nil {
		return err
	}
	if effect.State == string(inbox.EffectDead) {
		return &failure{text: fmt.Sprintf("effect %s is dead, not indeterminate: there is nothing to resolve; a replay gives it fresh attempts", r.Effect)}
	}
	if effect.State != string(inbox.EffectIndeterminate) {
		return &failure{text: fmt.Sprintf("effect %s is %s, not indeterminate: there is nothing to resolve", r.Effect, effect.State)}
	}
	if err := s.confirm(d, string(r.As), func() { s.showUnresolved(effect, r.As) }); err != nil {
		return err
	}
	r.Version, r.Revision = effect.Version, effect.Revision
	keys, err := s.keyring() // what was sent has the Message-ID that is kept as the result
	if err != nil {
		return err
	}
	store, err := app.NewStore(pool, keys)
	if err != nil {
		return err
	}
	err = store.Resolve(cmd.Context(), r)
	if errors.Is(err, inbox.ErrCalledAgain) {
		return &failure{text: fmt.Sprintf("effect %s: a later call names its operation as its parent and may have done the same; look at it, then add --called-again", r.Effect)}
	}
	if errors.Is(err, inbox.ErrRouteGone) {
		return &failure{text: fmt.Sprintf("effect %s: route %s/%s is gone, so nobody would send it; configure the route again and start a server with it, or say --done",
			r.Effect, clean(effect.Source), clean(effect.Route))}
	}
	if err != nil {
		return err
	}
	if s.output == "json" {
		return s.json(map[string]string{"effect": r.Effect.String(), "resolved": string(r.As)})
	}
	what := "is done now"
	if r.As == inbox.ResolveResend {
		what = "is sent again"
	}
	fmt.Fprintf(s.out, "effect %s %s\n", r.Effect, what)
	return nil
}

func (s *shell) showUnresolved(e *inbox.EffectDetail, as inbox.Resolution) {
	page(s.err, []pair{
		{"effect", e.ID.String()}, {"key", e.Source + "/" + e.EventID}, {"type", e.Type}, {"route", e.Route}, {"target", e.Target},
		{"reason", e.Reason}, {"attempts", fmt.Sprint(e.Attempts)}, {"send started", timeOrEmpty(e.SendStartedAt)},
	})
	if as == inbox.ResolveResend {
		fmt.Fprintf(s.err, "If it has happened at %s, it will happen twice.\n", clean(e.Target))
	}
}
