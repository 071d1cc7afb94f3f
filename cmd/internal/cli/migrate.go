package cli

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/migrations"
)

func (s *shell) migrateCommand() *cobra.Command {
	return group("migrate", "Make, check or revert the schema",
		inEach(s, s.migrateUpCommand()), inEach(s, s.migrateDownCommand()), inEach(s, s.migrateStatusCommand()))
}

// addLockWait adds the flag that limits waits for locks.
func addLockWait(cmd *cobra.Command, wait *time.Duration) {
	cmd.Flags().DurationVar(wait, "lock-wait", migrations.DefaultLockWait, "how long to wait for another migration to end, and for each migration to try for its locks")
}

// migrating runs do with a migrator until do ends or a signal stops it.
func (s *shell) migrating(ctx context.Context, wait time.Duration, do func(context.Context, *migrations.Migrator) error) error {
	if wait <= 0 {
		return usagef("--lock-wait %s: must be positive", wait)
	}
	db, err := s.database()
	if err != nil {
		return err
	}
	m, err := migrations.New(migrations.Config{
		URL: db.URL, Schema: db.Schema, LockWait: wait,
		Tell: func(line string) { _, _ = fmt.Fprintln(s.err, "oncegate: "+clean(line)) },
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err = do(ctx, m)
	if errors.Is(err, migrations.ErrStopped) {
		return errorf(errorcode.Unfinished, "%v", err)
	}
	return err
}

func (s *shell) migrateUpCommand() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "up", Short: "Bring the schema to the version this binary needs", Args: cobra.NoArgs,
		Long: "Bring the schema to the version that this binary needs. Processes of earlier versions keep running. Those\n" +
			"that may not run on the new schema are not ready at /readyz.\n\n" +
			"Each migration is committed together with its version. An interrupted command leaves nothing half done,\n" +
			"and running it again continues. SIGTERM and SIGINT roll back the current migration. The command exits\n" +
			"with 1 if it did not get a lock (it says who has it), with 2 if this binary is too old, and with 75 if it\n" +
			"was stopped or the database cannot be reached.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := s.migrating(cmd.Context(), wait, func(ctx context.Context, m *migrations.Migrator) error { return m.Up(ctx) })
			if err != nil {
				return err
			}
			return s.migrateStatus(cmd.Context())
		},
	}
	addLockWait(cmd, &wait)
	return cmd
}

func (s *shell) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the schema's version; exit 1 if this binary may not run on it", Args: cobra.NoArgs,
		Long: "Show the version of the schema, the oldest version of the program that may run on it, and the\n" +
			"processes that serve the database with the versions that they know. Exits with 1 if this binary\n" +
			"may not run on the schema.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := s.readStatus(cmd.Context())
			if err != nil {
				return err
			}
			if err := status.Check(); err != nil {
				return errorf(errorcode.CheckFailed, "%s", err.Error())
			}
			return nil
		},
	}
}

func (s *shell) migrateStatus(ctx context.Context) error {
	_, err := s.readStatus(ctx)
	return err
}

// readStatus reads and shows the status of the schema.
func (s *shell) readStatus(ctx context.Context) (migrations.Status, error) {
	pool, err := s.openPool(ctx)
	if err != nil {
		return migrations.Status{}, err
	}
	defer pool.Close()
	status, err := migrations.Read(ctx, pool)
	if err != nil {
		return status, err
	}
	nodes, err := migrations.Nodes(ctx, pool)
	if err != nil {
		return status, err
	}
	return status, s.showStatus(status, nodes)
}

func (s *shell) showStatus(status migrations.Status, nodes []migrations.Node) error {
	t := &table{header: []string{"TABLES", "AT", "NEEDED", "STATE", "OLDEST"}}
	state := func(at, needed, oldest int) string {
		switch {
		case at == needed:
			return "current"
		case at == 0:
			return "missing"
		case at < needed:
			return "older"
		case oldest > 0 && oldest <= needed:
			return "newer, and this binary may run on it"
		}
		return "newer"
	}
	t.add("oncegate", fmt.Sprint(status.Current), fmt.Sprint(status.Known), state(status.Current, status.Known, status.Oldest), orDash(status.Oldest))
	t.add("river", fmt.Sprint(status.River), fmt.Sprint(status.RiverKnown), state(status.River, status.RiverKnown, status.RiverOldest), orDash(status.RiverOldest))
	type node struct {
		migrations.Node
		Fits bool `json:"fits"`
	}
	list := make([]node, len(nodes))
	for i, n := range nodes {
		list[i] = node{n, n.Fits(status)}
	}
	err := s.show(t, map[string]any{
		"current": status.Current, "needed": status.Known, "oldest": status.Oldest,
		"river": status.River, "river_needed": status.RiverKnown, "river_oldest": status.RiverOldest, "nodes": list,
	})
	if err != nil || s.output != "table" || len(list) == 0 {
		return err
	}
	fmt.Fprintln(s.out)
	t = &table{header: []string{"NODE", "STATE", "VERSION", "KNOWS", "RIVER", "FITS"}, whole: []string{"NODE"}}
	for _, n := range list {
		state, fits := "live", "yes"
		if !n.Live {
			state = "silent"
		}
		if !n.Fits {
			fits = "no"
		}
		t.add(n.Name, state, n.Version, orDash(n.Known), orDash(n.RiverKnown), fits)
	}
	return s.show(t, nil)
}

// orDash formats a version, with - for an unknown one.
func orDash(version int) string {
	if version == 0 {
		return "-"
	}
	return fmt.Sprint(version)
}

// liveNodes returns the names of the live processes of the database.
func (s *shell) liveNodes(ctx context.Context) ([]string, error) {
	pool, err := s.openPool(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	nodes, err := migrations.Nodes(ctx, pool)
	if err != nil {
		return nil, err
	}
	var live []string
	for _, n := range nodes {
		if n.Live {
			live = append(live, fmt.Sprintf("%s (version %s)", n.Name, n.Version))
		}
	}
	return live, nil
}

func fewNames(names []string) string {
	const most = 5
	if len(names) > most {
		names = append(append([]string{}, names[:most]...), fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}
