package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) deadDiscardCommand() *cobra.Command {
	var f deadFlags
	var d decision
	var request control.DiscardDeadLettersRequest
	cmd := &cobra.Command{
		Use: "discard [id...]", Short: "Discard dead letters",
		Long: "Decide that dead letters will not happen. Their effects become skipped, so that later effects of their\n" +
			"sequences continue, and their events leave the list. Attempts and bytes stay until their retention ends.\n" +
			"The audit records each one with the hash of its body. Name dead letters by id or by a filter.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if request.IDs, err = parseIDs(args); err != nil {
				return err
			}
			if request.Filter, err = f.filter(); err != nil {
				return err
			}
			filtered := request.Filter != (control.DeadLetterFilter{})
			if len(request.IDs) > 0 && filtered {
				return usagef("name ids or a filter, not both")
			}
			if request.Max < 1 || request.Max > decide.MaxDiscards {
				return usagef("--max %d: must be from 1 to %d", request.Max, decide.MaxDiscards)
			}
			if !request.DryRun {
				if err := d.check(s, "why need they not happen?"); err != nil {
					return err
				}
			}
			if len(request.IDs) == 0 && !filtered && !request.All {
				return usagef("name dead letters by id or by a filter, or say --all")
			}
			request.Reason = d.reason
			return s.discard(cmd.Context(), request, d)
		},
	}
	f.add(cmd)
	d.add(cmd)
	cmd.Flags().BoolVar(&request.All, "all", false, "every dead letter there is")
	cmd.Flags().BoolVar(&request.DryRun, "dry-run", false, "count them and change nothing")
	cmd.Flags().IntVar(&request.Max, "max", decide.DefaultDiscards, "do nothing if more match")
	return cmd
}

// discard counts the dead letters, asks the user to confirm the count, and discards them in
// batches.
func (s *shell) discard(ctx context.Context, request control.DiscardDeadLettersRequest, d decision) error {
	return s.controlWith(ctx, onDatabase{actor: d.actor, changes: true}, func(caller control.Caller) error {
		count := request
		count.DryRun = true
		found, err := control.Call(ctx, caller, &control.DiscardDeadLetters, count)
		switch {
		case problemCode(err) == control.CodeBound:
			return &failure{text: fmt.Sprintf("more than %d match and nothing was changed; narrow the filter or raise --max", request.Max)}
		case err != nil:
			return refusedRequest(err)
		}
		sum := decide.Discarded{Matched: found.Matched}
		if !request.DryRun && found.Matched > 0 {
			if err := s.confirm(d, fmt.Sprintf("discard %d", found.Matched), func() {}); err != nil {
				return err
			}
			bar := s.progress(int64(found.Matched), "discarding")
			defer bar.done()
			for found.Seen != "" {
				next := control.DiscardDeadLettersRequest{Explained: request.Explained, Seen: found.Seen}
				if found, err = control.Call(ctx, caller, &control.DiscardDeadLetters, next); err != nil {
					return err
				}
				sum.Discarded, sum.Changed = sum.Discarded+found.Discarded.Discarded, sum.Changed+found.Changed
				bar.at(int64(sum.Matched - found.Left))
			}
			bar.done()
		}
		return s.showDiscarded(sum, request.DryRun)
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
