package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) deadDiscardCommand() *cobra.Command {
	var d decision
	r := control.DiscardDeadLettersRequest{Max: decide.DefaultDiscards}
	cmd := &cobra.Command{
		Use: "discard [id...]", Short: "Discard dead letters",
		Long: "Decide that dead letters will not happen. Their effects become skipped, so that later effects of their\n" +
			"sequences continue, and their events leave the list. Attempts and bytes stay until their retention ends.\n" +
			"The audit records each one with the hash of its body. Name dead letters by id or by a filter.",
	}
	readFilter := deadFlags(cmd, &r.Filter)
	requestFlags(cmd, &r)
	d.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if r.IDs, err = parseIDs(args); err != nil {
			return err
		}
		if err := readFilter(); err != nil {
			return err
		}
		if err := checkWhich("dead letters", len(r.IDs), r.Filter != (control.DeadLetterFilter{}), r.All); err != nil {
			return err
		}
		if err := checkMax(r.Max); err != nil {
			return err
		}
		if !r.DryRun {
			if err := d.check(s, control.DiscardDeadLetters.Why); err != nil {
				return err
			}
		}
		r.Reason = d.reason
		return s.discard(cmd.Context(), r, d)
	}
	return cmd
}

// discard counts the dead letters, asks the user to confirm the count, and discards them in
// batches.
func (s *shell) discard(ctx context.Context, r control.DiscardDeadLettersRequest, d decision) error {
	return s.controlWith(ctx, onDatabase{actor: d.actor, changes: true}, func(caller control.Caller) (err error) {
		var sum decide.Discarded
		sum.Matched, err = s.decideMany(d, r.DryRun, control.DiscardDeadLetters.Confirm, "discarding", nothing, func(seen control.Seen) (batch, error) {
			next := control.DiscardDeadLettersRequest{Explained: r.Explained, Seen: seen}
			if seen == "" {
				next = r
				next.DryRun = true
			}
			out, err := control.Call(ctx, caller, &control.DiscardDeadLetters, next)
			sum.Discarded, sum.Changed = sum.Discarded+out.Discarded.Discarded, sum.Changed+out.Changed
			return batch{out.Matched, out.Left, out.Seen}, tooMany(err, r.Max)
		})
		if err != nil {
			return err
		}
		return s.showDiscarded(sum, r.DryRun)
	})
}

func (s *shell) showDiscarded(out decide.Discarded, dryRun bool) error {
	if s.output == "json" {
		return s.json(out)
	}
	if dryRun {
		fmt.Fprintf(s.out, "%s would be discarded\n", plural(out.Matched, "dead letter", "dead letters"))
		return nil
	}
	fmt.Fprintf(s.out, "%s discarded\n", plural(out.Discarded, "dead letter", "dead letters"))
	if out.Changed > 0 {
		fmt.Fprintf(s.out, "%d had changed meanwhile and were left alone\n", out.Changed)
	}
	return nil
}
