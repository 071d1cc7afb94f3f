package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) conflictsDismissCommand() *cobra.Command {
	var d decision
	r := control.DismissConflictsRequest{Max: decide.DefaultDiscards}
	cmd := &cobra.Command{
		Use: "dismiss [id...]", Short: "Dismiss conflicts that need no event",
		Long: "Decide that conflicts need no event, so that they no longer wait for you. The payloads stay until they\n" +
			"are pruned, and you can still admit them. A payload that comes later is another conflict. The audit\n" +
			"records each one. Name conflicts by id or by a filter.",
		Example: "  oncegate conflicts dismiss --source stripe --since 24h --reason \"the sender rewrote its notes\"",
	}
	readFilter := requestFlags(cmd, &r.Filter)
	requestFlags(cmd, &r)
	d.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, arg := range args {
			id, err := conflictID(arg)
			if err != nil {
				return err
			}
			r.IDs = append(r.IDs, id)
		}
		if err := readFilter(); err != nil {
			return err
		}
		if err := checkWhich("conflicts", len(r.IDs), r.Filter != (control.ConflictFilter{}), r.All); err != nil {
			return err
		}
		if err := checkMax(r.Max); err != nil {
			return err
		}
		if !r.DryRun {
			if err := d.check(s, control.DismissConflicts.Why); err != nil {
				return err
			}
		}
		r.Reason = d.reason
		return s.dismiss(cmd.Context(), r, d)
	}
	return cmd
}

// dismiss counts the conflicts, asks the user to confirm the count, and dismisses them in batches.
func (s *shell) dismiss(ctx context.Context, r control.DismissConflictsRequest, d decision) error {
	return s.controlWith(ctx, onDatabase{actor: d.actor, changes: true}, func(caller control.Caller) (err error) {
		var sum decide.DismissedConflicts
		sum.Matched, err = s.decideMany(d, r.DryRun, control.DismissConflicts.Confirm, "dismissing", nothing, func(seen control.Seen) (batch, error) {
			next := control.DismissConflictsRequest{Explained: r.Explained, Seen: seen}
			if seen == "" {
				next = r
				next.DryRun = true
			}
			out, err := control.Call(ctx, caller, &control.DismissConflicts, next)
			sum.Dismissed, sum.Changed = sum.Dismissed+out.Dismissed, sum.Changed+out.Changed
			return batch{out.Matched, out.Left, out.Seen}, tooMany(err, r.Max)
		})
		if err != nil {
			return err
		}
		if s.output == "json" {
			return s.json(sum)
		}
		if r.DryRun {
			return s.print("%s would be dismissed", plural(sum.Matched, "conflict", "conflicts"))
		}
		fmt.Fprintf(s.out, "%s dismissed\n", plural(sum.Dismissed, "conflict", "conflicts"))
		if sum.Changed > 0 {
			fmt.Fprintf(s.out, "%d waited no more and were left alone\n", sum.Changed)
		}
		return nil
	})
}
