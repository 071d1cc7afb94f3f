package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) refusalsAcknowledgeCommand() *cobra.Command {
	var (
		d           decision
		filter      control.RefusalFilter
		ask         control.AcknowledgeRefusalsRequest
		all, dryRun bool
	)
	cmd := &cobra.Command{
		Use: "acknowledge", Short: "Acknowledge refusals that need nothing, such as a flood of forgeries", Args: cobra.NoArgs,
		Long: "Acknowledge refusals by source, cause and peer. They no longer wait for you, also where more come, and\n" +
			"`oncegate status` and the console leave them out. Refusals of another source, cause or peer still\n" +
			"wait for you. `oncegate refusals list --group` shows the causes, and who acknowledged which.",
		Example: "  oncegate refusals acknowledge --source stripe --peer 192.0.2.7 --reason \"a scanner\"\n" +
			"  oncegate refusals acknowledge --source stripe --withdraw --reason \"the secret was rotated\"",
	}
	readFilter := requestFlags(cmd, &filter)
	requestFlags(cmd, &ask)
	restrict(cmd, "cause", receiver.Causes())
	cmd.Flags().BoolVar(&all, "all", false, "every cause there is")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the causes and change nothing")
	d.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := readFilter(); err != nil {
			return err
		}
		if filtered := filter != (control.RefusalFilter{}); filtered == all {
			return usagef("name refusals by a filter such as --source, or say --all")
		}
		if !dryRun {
			if err := d.check(s, control.AcknowledgeRefusals.Why); err != nil {
				return err
			}
		}
		ask.Reason = d.reason
		return s.acknowledge(cmd.Context(), filter, ask, d, dryRun)
	}
	return cmd
}

// acknowledge shows the causes that match the filter and that the decision would change, asks the user to confirm their number, and
// acknowledges them or takes their acknowledgements back.
func (s *shell) acknowledge(ctx context.Context, filter control.RefusalFilter, ask control.AcknowledgeRefusalsRequest, d decision, dryRun bool) error {
	return s.controlWith(ctx, onDatabase{actor: d.actor, changes: true}, func(caller control.Caller) error {
		groups, err := control.Call(ctx, caller, &control.GroupRefusals, filter)
		if err != nil {
			return err
		}
		groups.Data = slices.DeleteFunc(groups.Data, func(g read.RefusalGroup) bool { return (g.AcknowledgedAt != nil) != ask.Withdraw })
		for _, g := range groups.Data {
			ask.Causes = append(ask.Causes, decide.RefusalCause{Source: g.Source, Cause: g.Cause, Peer: g.Peer})
		}
		s.sayUncounted("refusals", groups.SearchedTo)
		n := len(ask.Causes)
		what := "acknowledged"
		if ask.Withdraw {
			what = "no longer acknowledged"
		}
		out := control.AcknowledgedRefusals{}
		switch {
		case dryRun && s.output == "json":
			return s.json(struct {
				Causes []decide.RefusalCause `json:"causes"`
			}{emptyList(ask.Causes)})
		case dryRun:
			refusalGroupColumns.table(s, groups.Data).write(s.out, s.width())
			return s.print("%s would be %s", plural(n, "cause", "causes"), what)
		case n > 0:
			if err := s.confirm(d, fmt.Sprintf("%s %d", control.AcknowledgeRefusals.Confirm, n), func() { refusalGroupColumns.table(s, groups.Data).write(s.err, s.width()) }); err != nil {
				return err
			}
			if out, err = control.Call(ctx, caller, &control.AcknowledgeRefusals, ask); err != nil {
				return err
			}
		}
		if s.output == "json" {
			return s.json(out)
		}
		return s.print("%s %s", plural(out.Changed, "cause", "causes"), what)
	})
}
