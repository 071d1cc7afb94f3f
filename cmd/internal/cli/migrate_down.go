package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/migrations"
)

// downFlags are the flags of `migrate down`.
type downFlags struct {
	all, yes, running bool
	from              int
	wait              time.Duration
}

func (s *shell) migrateDownCommand() *cobra.Command {
	var f downFlags
	cmd := &cobra.Command{
		Use: "down [version]", Short: "Go down to an earlier version of the schema", Args: cobra.MaximumNArgs(1),
		Long: "Take back every migration after the given version, newest first. The number is the version to go\n" +
			"down to, not a number of steps: `migrate down 1` leaves the schema at version 1. The data of the\n" +
			"removed tables and columns is lost; the command shows first what that is. With --all it removes\n" +
			"everything: every table, including River's, with every event.\n\n" +
			"The command asks on a terminal and needs --yes elsewhere. To take back more than one version\n" +
			"there, it also needs --from, the current version of the schema. It refuses while processes serve\n" +
			"the database, unless you give --while-running: programs that need a later version are not ready\n" +
			"afterwards and may fail before they notice.",
		Example: "  oncegate migrate down 1\n  oncegate migrate down 1 --from 2 --yes\n  oncegate migrate down --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			version := 0
			if len(args) > 0 {
				var err error
				if version, err = strconv.Atoi(args[0]); err != nil || version < 1 {
					return usagef("%q is no version to go down to, which is 1 or more; --all takes everything away", clean(args[0]))
				}
			}
			switch {
			case f.all && len(args) > 0:
				return usagef("give a version to go down to or --all, not both")
			case !f.all && len(args) == 0:
				return usagef("say down to which version, as in `oncegate migrate down %d` (`oncegate migrate status` says where it is); --all takes everything away", migrations.Version-1)
			}
			if err := s.checkDown(ctx, version, f); err != nil {
				return err
			}
			err := s.migrating(ctx, f.wait, func(ctx context.Context, m *migrations.Migrator) error {
				if f.all {
					return m.DownAll(ctx)
				}
				return m.DownTo(ctx, version)
			})
			if err != nil {
				return err
			}
			return s.migrateStatus(ctx)
		},
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "take everything away, with all data")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask for confirmation")
	cmd.Flags().IntVar(&f.from, "from", 0, "the version that the schema is at; needed with --yes to take back more than one")
	cmd.Flags().BoolVar(&f.running, "while-running", false, "go down even while processes serve the database")
	addLockWait(cmd, &f.wait)
	return cmd
}

// checkSteps returns an error if the schema is not at the version that --from names, or if --yes would take back several
// migrations without --from.
func (f downFlags) checkSteps(current, version int) error {
	steps := current - version
	switch {
	case f.from != 0 && f.from != current:
		return usagef("the schema is at %d, not at %d; nothing was changed", current, f.from)
	case !f.all && f.yes && steps > 1 && f.from == 0:
		return errorf(errorcode.ConfirmationMissing, "from %d down to %d takes back %d migrations (the number is a version, not a number of steps); add --from %d if that is meant", current, version, steps, current)
	}
	return nil
}

// checkDown returns an error if the request is not allowed, and asks for confirmation.
func (s *shell) checkDown(ctx context.Context, version int, f downFlags) error {
	db, err := s.database()
	if err != nil {
		return err
	}
	pool, err := s.openPool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	status, err := migrations.Read(ctx, pool)
	if err != nil {
		return err
	}
	if !f.all {
		if err := status.Target(version); err != nil {
			return err
		}
	}
	if err := f.checkSteps(status.Current, version); err != nil {
		return err
	}
	live, err := s.liveNodes(ctx)
	if err != nil {
		return err
	}
	if len(live) > 0 && !f.running {
		return errorf(errorcode.WrongState, "%s %s this database: stop %s first, or add --while-running; nothing was changed", fewNames(live), serves(len(live)), them(len(live)))
	}
	if !f.yes && !s.interactive() {
		if f.all {
			return errorf(errorcode.ConfirmationMissing, "migrate down --all deletes every event in schema %s; add --yes if that is meant", db.Schema)
		}
		return errorf(errorcode.ConfirmationMissing, "from %d down to %d: there is no terminal to ask at; add --yes", status.Current, version)
	}
	word, what := strconv.Itoa(version), fmt.Sprintf("The schema %s goes from version %d down to %d.", db.Schema, status.Current, version)
	if f.all {
		word, what = "all", fmt.Sprintf("Every table of the schema %s goes, with every event.", db.Schema)
	}
	var losses []string
	if !f.all {
		if losses, err = s.losses(ctx, version, f.wait); err != nil {
			return err
		}
	}
	show := func() {
		fmt.Fprintln(s.err, what)
		for _, loss := range losses {
			fmt.Fprintln(s.err, "Lost: "+clean(loss))
		}
	}
	if f.yes {
		show()
		return nil
	}
	return s.confirm(decision{}, word, show)
}

// losses lists the data that would be lost.
func (s *shell) losses(ctx context.Context, version int, wait time.Duration) ([]string, error) {
	var out []string
	err := s.migrating(ctx, wait, func(ctx context.Context, m *migrations.Migrator) error {
		losses, err := m.Losses(ctx, version)
		for _, loss := range losses {
			out = append(out, loss.String())
		}
		return err
	})
	return out, err
}

func serves(n int) string {
	if n == 1 {
		return "serves"
	}
	return "serve"
}

func them(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}
