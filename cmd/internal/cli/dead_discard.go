package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/app"
)

func (s *shell) deadDiscardCommand() *cobra.Command {
	var f deadFlags
	var d decision
	var request inbox.Discard
	cmd := &cobra.Command{
		Use: "discard [id...]", Short: "Discard dead letters",
		Long: "Decide that dead letters will not happen. Their effects become skipped, so that effects behind\n" +
			"them in a sequence go on, and their events leave the list. Attempts and bytes stay until their\n" +
			"retention ends. The audit records each one with the hash of its body. Name dead letters by id or\n" +
			"by a filter.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if request.IDs, err = parseIDs(args); err != nil {
				return err
			}
			if request.Filter, err = f.filter(); err != nil {
				return err
			}
			if len(request.IDs) > 0 && !request.Filter.IsZero() {
				return usagef("name ids or a filter, not both")
			}
			if request.Max < 1 || request.Max > inbox.MaxDiscards {
				return usagef("--max %d: must be from 1 to %d", request.Max, inbox.MaxDiscards)
			}
			if !request.DryRun {
				if err := d.check(s, "why need they not happen?"); err != nil {
					return err
				}
			}
			request.Actor, request.Reason = d.actor, d.reason
			return s.discard(cmd, request, d)
		},
	}
	f.add(cmd)
	d.add(cmd)
	cmd.Flags().BoolVar(&request.All, "all", false, "every dead letter there is")
	cmd.Flags().BoolVar(&request.DryRun, "dry-run", false, "count them and change nothing")
	cmd.Flags().IntVar(&request.Max, "max", inbox.DefaultDiscards, "do nothing if more match")
	return cmd
}

func (s *shell) discard(cmd *cobra.Command, request inbox.Discard, d decision) error {
	pool, err := s.openForChange(cmd.Context())
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := app.NewStore(pool, nil)
	if err != nil {
		return err
	}
	count := request
	count.DryRun = true
	found, err := store.Discard(cmd.Context(), count)
	if err == nil && !request.DryRun && found.Matched > 0 {
		if err := s.confirm(d, fmt.Sprintf("discard %d", found.Matched), func() {}); err != nil {
			return err
		}
		request.Seen = found.Seen
		bar := s.progress(int64(found.Matched), "discarding")
		request.Progress = func(done, _ int) { bar.at(int64(done)) }
		found, err = store.Discard(cmd.Context(), request)
		bar.done()
	}
	switch {
	case errors.Is(err, inbox.ErrScope):
		return usagef("name dead letters by id or by a filter, or say --all")
	case errors.Is(err, inbox.ErrBound):
		return &failure{text: fmt.Sprintf("more than %d match and nothing was changed; narrow the filter or raise --max", request.Max)}
	case err != nil:
		return err
	}
	if s.output == "json" {
		return s.json(found)
	}
	if request.DryRun {
		fmt.Fprintf(s.out, "%s would be discarded\n", plural(found.Matched, "dead letter", "dead letters"))
		return nil
	}
	fmt.Fprintf(s.out, "%s discarded\n", plural(found.Discarded, "dead letter", "dead letters"))
	if found.Changed > 0 {
		fmt.Fprintf(s.out, "%d had changed meanwhile and were left alone\n", found.Changed)
	}
	return nil
}
