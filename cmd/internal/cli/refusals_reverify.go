package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) refusalsReverifyCommand() *cobra.Command {
	var f listFlags
	var d decision
	var cause string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "reverify --source <name>", Short: "Verify kept refusals with today's secrets, and admit those that verify", Args: cobra.NoArgs,
		Long: "Verify the kept refusals of a source with the secrets of the configuration, each at the time at which it\n" +
			"was received, and admit those that verify. Oncegate records them as if they had verified then, and each\n" +
			"event once, even if the sender has delivered it again. Use this after a failed rotation of secrets.\n\n" +
			"Admitted deliveries are removed from the refusals. --dry-run admits nothing and writes nothing.",
		Example: "  oncegate refusals reverify --source stripe --dry-run\n" +
			"  oncegate refusals reverify --source stripe --since 12h --reason \"the new secret was missing from 2 to 5\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.limit = 1
			since, err := f.parse(nil)
			if err != nil {
				return err
			}
			if f.source == "" {
				return usagef("--source is missing")
			}
			if err := checkCause(cause); err != nil {
				return err
			}
			if !dryRun {
				if err := d.check(s, "why did they not verify? (--dry-run needs none.)"); err != nil {
					return err
				}
			}
			r := control.ReverifyRefusalsRequest{Explained: control.Explained{Reason: d.reason}, Source: f.source, Cause: cause, Since: since, DryRun: dryRun}
			return s.controlWith(cmd.Context(), onDatabase{actor: d.actor, settings: s.servedConfig}, func(caller control.Caller) error {
				return s.reverify(cmd.Context(), caller, r)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "the source; required")
	flags.StringVar(&cause, "cause", "", "only this cause, such as mismatch")
	f.addSince(cmd, "received ")
	flags.BoolVar(&dryRun, "dry-run", false, "say what would be admitted, and do nothing")
	flags.StringVar(&d.reason, "reason", "", "the reason, for the audit; required without --dry-run")
	flags.StringVar(&d.actor, "actor", "", "who decides "+actorDefault)
	return cmd
}

// reverify repeats the request until all refusals have been examined.
func (s *shell) reverify(ctx context.Context, caller control.Caller, r control.ReverifyRefusalsRequest) error {
	bar := s.progress(-1, "verifying")
	defer bar.done()
	var sum refusal.ReverifyReport
	for {
		out, err := control.Call(ctx, caller, &control.ReverifyRefusals, r)
		if problemCode(err) == control.CodeInvalid {
			return refusedRequest(err)
		}
		if err != nil {
			bar.done()
			_ = s.showReverified(sum, r.DryRun) // show what was done before the error
			if isOverloaded(err) {
				return tryLaterf("%v; run it again to continue", err)
			}
			return err
		}
		sum = sum.Plus(out.ReverifyReport)
		bar.at(int64(sum.Examined))
		if out.Next == nil {
			bar.done()
			return s.showReverified(sum, r.DryRun)
		}
		r.After = *out.Next
	}
}

func (s *shell) showReverified(r refusal.ReverifyReport, dryRun bool) error {
	if s.output == "json" {
		return s.json(struct {
			DryRun bool `json:"dry_run"`
			refusal.ReverifyReport
		}{dryRun, r})
	}
	recorded := "recorded"
	if dryRun {
		recorded = "would be recorded"
	}
	page(s.out, []pair{
		{"examined", fmt.Sprint(r.Examined)},
		{"verified", fmt.Sprint(r.Verified)},
		{"refused again", fmt.Sprint(r.Refused)},
		{"unreadable", nonzero(r.Unreadable)},
		{"undecided", undecided(r.Undecided)},
		{recorded, count(r.Recorded, "event")},
		{"known already", count(r.Duplicates, "event")},
		{"conflicts", nonzero(r.Conflicts)},
		{"unusable", nonzero(r.Unusable)},
	})
	return nil
}

// undecided explains what to do about refusals whose key could not be obtained.
func undecided(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d: the sender's key could not be got; run it again in a minute", n)
}
