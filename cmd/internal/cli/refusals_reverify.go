package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) refusalsReverifyCommand() *cobra.Command {
	var d decision
	var r control.ReverifyRefusalsRequest
	cmd := &cobra.Command{
		Use: "reverify --source <name>", Short: "Verify kept refusals with today's secrets, and admit those that verify", Args: cobra.NoArgs,
		Long: "Verify the kept refusals of a source with the secrets of the configuration, each at the time at which it\n" +
			"was received, and admit those that verify. Oncegate records them as if they had verified then, and each\n" +
			"event once, even if the sender has delivered it again. Use this after a failed rotation of secrets.\n\n" +
			"Admitted deliveries are removed from the refusals. --dry-run admits nothing and writes nothing.",
		Example: "  oncegate refusals reverify --source stripe --dry-run\n" +
			"  oncegate refusals reverify --source stripe --since 12h --reason \"the new secret was missing from 2 to 5\"",
	}
	readFlags := requestFlags(cmd, &r)
	restrict(cmd, "cause", receiver.Causes())
	d.addExplanation(cmd)
	cmd.Flags().Lookup("reason").Usage += " without --dry-run"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := readFlags(); err != nil {
			return err
		}
		if r.Source == "" {
			return usagef("--source is missing")
		}
		if !r.DryRun {
			if err := d.check(s, control.ReverifyRefusals.Why); err != nil {
				return err
			}
		}
		r.Reason = d.reason
		return s.controlWith(cmd.Context(), onDatabase{actor: d.actor, settings: (*shell).servedConfig}, func(caller control.Caller) error {
			return s.reverify(cmd.Context(), caller, r)
		})
	}
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
				return errorf(errorcode.Unfinished, "%v; run it again to continue", err)
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
