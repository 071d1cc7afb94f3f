package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/history"
)

func (s *shell) historyCommand() *cobra.Command {
	return group("history", "Show where the database's data was written, and declare what a copy of it is",
		s.historyShowCommand(), s.historyDeclareCommand())
}

// historyAnswer is the row of the database's current history. Problem is set if effects are not
// carried out.
type historyAnswer struct {
	*history.Row
	Problem string `json:"problem,omitempty"`
}

func (s *shell) historyShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show on which cluster and timeline the data is, and whether effects are carried out", Args: cobra.NoArgs,
		Long: "Show the cluster and timeline of the data, their history, and whether effects are carried out. After a\n" +
			"failover or a restore this prints the decision, and the number of effects that became indeterminate\n" +
			"because they may have happened.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			pool, err := s.openPool(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			row, err := history.Read(cmd.Context(), pool)
			if errors.Is(err, history.ErrUnknown) {
				return errorf(errorcode.WrongState, "no process has worked on this database where it is now: start one, or declare what it is with `oncegate history declare`")
			}
			if err != nil {
				return err
			}
			return s.showHistory(row)
		},
	}
}

func (s *shell) showHistory(row *history.Row) error {
	answer := historyAnswer{Row: row}
	if err := row.Err(); err != nil {
		answer.Problem = err.Error()
	}
	if s.output == "json" {
		return s.json(answer)
	}
	carried := "carried out"
	if answer.Problem != "" {
		carried = answer.Problem
	}
	page(s.out, []pair{
		{"cluster", strconv.FormatInt(row.System, 10)},
		{"timeline", strconv.FormatUint(uint64(row.Timeline), 10)},
		{"verdict", string(row.Verdict)},
		{"marked", fmt.Sprintf("%d effects became indeterminate (restored)", row.Marked)},
		{"effects", carried},
	})
	return nil
}

func (s *shell) historyDeclareCommand() *cobra.Command {
	var as string
	var d decision
	cmd := &cobra.Command{
		Use: "declare", Short: "Declare what a copied or restored database is", Args: cobra.NoArgs,
		Long: "Declare what a copied or restored database is. Until then, a process that finds its data on another\n" +
			"cluster, or in new tables, records deliveries but carries out no effects.\n\n" +
			"  moved     It is the installation, and nothing is missing: pg_upgrade, or a move while all processes were\n" +
			"            stopped. Effects continue.\n" +
			"  restored  It is the installation, and what happened since the backup is missing. Effects that may have\n" +
			"            happened at targets that cannot deduplicate become indeterminate (restored); the others continue.\n" +
			"  copy      It is not the installation, such as a clone for tests. Nothing is carried out.\n\n" +
			"A database that was set back without another cluster or timeline, such as a server's disks from a\n" +
			"snapshot, is declared restored, or copy, before a process starts on it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			verdict := history.Verdict(as)
			switch verdict {
			case history.Moved, history.Restored, history.Copied:
			default:
				return usagef("--as %q is unknown; say moved, restored or copy", clean(as))
			}
			if err := d.check(s, "why is the database that?"); err != nil {
				return err
			}
			pool, err := s.openPool(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			if err := s.confirm(d, as, func() {
				fmt.Fprintf(s.err, "The database is declared %s. `oncegate history declare --help` says what follows.\n", as)
			}); err != nil {
				return err
			}
			row, err := history.Declare(cmd.Context(), pool, history.Declaration{As: verdict, Actor: d.actor, Reason: d.reason})
			if errors.Is(err, history.ErrDeclaration) {
				return usagef("%v", err)
			}
			if err != nil {
				return err
			}
			return s.showHistory(row)
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "what the database is: `moved, restored or copy`; required")
	d.add(cmd)
	return cmd
}
