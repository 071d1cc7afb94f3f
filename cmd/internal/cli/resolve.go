package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
)

func (s *shell) resolveCommand() *cobra.Command {
	var done, resend, again bool
	var d decision
	cmd := &cobra.Command{
		Use:   "resolve <id>",
		Short: "Say what became of an indeterminate effect",
		Long: "Say what became of an effect whose outcome is unknown: --done, it happened; --resend, send it\n" +
			"again. Look at the target first. On a terminal the decision has to be typed once more; elsewhere\n" +
			"it needs --yes. It is written to the audit with the actor and the reason.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := inbox.ParseID(args[0])
			if err != nil {
				return usagef("%q is not an effect's id; `oncegate effects list --state indeterminate` shows them", clean(args[0]))
			}
			if done == resend {
				return usagef("say either --done or --resend")
			}
			if again && !resend {
				return usagef("--called-again goes with --resend")
			}
			if err := d.check(s, "how do you know?"); err != nil {
				return err
			}
			as := inbox.ResolveDone
			if resend {
				as = inbox.ResolveResend
			}
			return s.resolve(cmd, inbox.Resolve{Effect: id, As: as, CalledAgain: again, Reason: d.reason, Actor: d.actor}, d)
		},
	}
	cmd.Flags().BoolVar(&done, "done", false, "it happened: nothing more is sent")
	cmd.Flags().BoolVar(&resend, "resend", false, "send it again: it happens twice if it had happened")
	cmd.Flags().BoolVar(&again, "called-again", false, "with --resend: although a later call repeats its operation")
	d.add(cmd)
	return cmd
}

func (s *shell) resolve(cmd *cobra.Command, r inbox.Resolve, d decision) error {
	pool, err := s.openPool(cmd.Context())
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
	if err := s.typed(d, string(r.As), func() { s.showUnresolved(effect, r.As) }); err != nil {
		return err
	}
	r.Version = effect.Version
	store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "cli"})
	if err != nil {
		return err
	}
	err = store.Resolve(cmd.Context(), r)
	if errors.Is(err, inbox.ErrCalledAgain) {
		return &failure{text: fmt.Sprintf("effect %s: a later call names its operation as its parent and may have done the same; look at it, then add --called-again", r.Effect)}
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
		{"reason", e.Reason}, {"attempts", fmt.Sprint(e.Attempts)}, {"send started", optional(e.SendStartedAt)},
	})
	if as == inbox.ResolveResend {
		fmt.Fprintf(s.err, "If it has happened at %s, it will happen twice.\n", clean(e.Target))
	}
}
