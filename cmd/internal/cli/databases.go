package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
)

// checkDatabaseName refuses --database where a command does not use it.
func (s *shell) checkDatabaseName(cmd *cobra.Command) error {
	if s.databaseName == "" {
		return nil
	}
	switch path := strings.TrimPrefix(cmd.CommandPath(), "oncegate "); path {
	case "serve", "dev", "dev link", "dev events", "dev replay":
		return usagef("`oncegate %s` serves every database of its configuration: leave --database out", path)
	}
	return nil
}

// databaseNames returns the names of the databases that a command without --database concerns, the default one first. It returns none
// if there is one, or if the configuration cannot be read, which what uses it reports.
func (s *shell) databaseNames() []string {
	if s.databaseName != "" {
		return nil
	}
	cfg, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, DatabaseOnly: true, KeyringLater: true})
	if err != nil || len(cfg.Databases) == 0 {
		return nil
	}
	return cfg.DatabaseNames()
}

// of returns the shell for one database by its name, or for all of them if the name is empty.
func (s *shell) of(database string) *shell {
	out := *s
	out.databaseName = database
	return &out
}

// members returns a shell for each database that the command concerns.
func (s *shell) members() []*shell {
	names := s.databaseNames()
	if len(names) == 0 {
		return []*shell{s}
	}
	out := make([]*shell, len(names))
	for i, name := range names {
		out[i] = s.of(name)
	}
	return out
}

// inEach has a command act on each database in turn. It ends at the first that fails.
func inEach(s *shell, cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.eachDatabase(func() error { return run(cmd, args) })
	}
	return cmd
}

// eachDatabase calls run with each database that the command concerns as the one that --database names. It ends at the first error.
func (s *shell) eachDatabase(run func() error) error {
	names := s.databaseNames()
	if len(names) == 0 {
		return run()
	}
	defer func() { s.databaseName = "" }()
	for _, name := range names {
		s.databaseName = name
		fmt.Fprintf(s.err, "database %s:\n", name)
		if err := run(); err != nil {
			return err
		}
	}
	return nil
}

// registered returns what each database that answers knows about sources.
func (s *shell) registered(ctx context.Context, whole *config.Config, names []string) map[string]*app.Registered {
	out := map[string]*app.Registered{}
	for _, name := range names {
		if found, err := app.RegisteredSources(ctx, whole.Part(name)); err == nil {
			out[name] = found
		}
	}
	return out
}
