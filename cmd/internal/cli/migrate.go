package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/migrations"
)

func (s *shell) migrateCommand() *cobra.Command {
	up := &cobra.Command{
		Use: "up", Short: "Bring the schema to the version this binary needs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := s.database()
			if err != nil {
				return err
			}
			if err := migrations.Up(cmd.Context(), db.URL, db.Schema); err != nil {
				return err
			}
			return s.migrateStatus(cmd.Context())
		},
	}
	var yes bool
	down := &cobra.Command{
		Use: "down", Short: "Take all tables away, with everything in them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := s.database()
			if err != nil {
				return err
			}
			if !yes {
				return usagef("migrate down deletes every event in schema %s; add --yes if that is meant", db.Schema)
			}
			if err := migrations.Down(cmd.Context(), db.URL, db.Schema); err != nil {
				return err
			}
			return s.migrateStatus(cmd.Context())
		},
	}
	down.Flags().BoolVar(&yes, "yes", false, "really delete everything")
	status := &cobra.Command{
		Use: "status", Short: "Show the schema's version; exit 1 if it is not what this binary needs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pool, err := s.openPool(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			read, err := migrations.Read(cmd.Context(), pool)
			if err != nil {
				return err
			}
			if err := s.showStatus(read); err != nil {
				return err
			}
			if err := read.Check(); err != nil {
				return &failure{text: err.Error()}
			}
			return nil
		},
	}
	return group("migrate", "Make, check or remove the schema", up, down, status)
}

func (s *shell) migrateStatus(ctx context.Context) error {
	pool, err := s.openPool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	status, err := migrations.Read(ctx, pool)
	if err != nil {
		return err
	}
	return s.showStatus(status)
}

func (s *shell) showStatus(status migrations.Status) error {
	t := &table{header: []string{"TABLES", "AT", "NEEDED", "STATE"}}
	state := func(at, needed int) string {
		switch {
		case status.Dirty:
			return "dirty"
		case at == needed:
			return "current"
		case at == 0:
			return "missing"
		case at < needed:
			return "older"
		}
		return "newer"
	}
	t.add("oncegate", fmt.Sprint(status.Current), fmt.Sprint(status.Known), state(status.Current, status.Known))
	t.add("river", fmt.Sprint(status.River), fmt.Sprint(status.RiverKnown), state(status.River, status.RiverKnown))
	return s.show(t, map[string]any{
		"current": status.Current, "needed": status.Known, "dirty": status.Dirty,
		"river": status.River, "river_needed": status.RiverKnown,
	})
}

// failure is exit code 1, whatever it was made from.
type failure struct{ text string }

func (e *failure) Error() string { return e.text }
