package cli

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/doctor"
	"github.com/oncegate/oncegate/internal/visible"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

func (s *shell) configCommand() *cobra.Command {
	against, brokers := false, false
	check := &cobra.Command{
		Use: "check", Short: "Check the configuration and report everything that is wrong", Args: cobra.NoArgs,
		Long: "Check the configuration and report everything that is wrong with it. It refuses everything that `serve`\n" +
			"would refuse at its start, but does not use the database and writes nothing.\n\n" +
			"With --against-database it also reads the database, with the sources that are defined there, and lists the sources and routes that a start would\n" +
			"rename, the data and effects of removed ones with the commands that clear them, and the effect on streams\n" +
			"of a route whose order has changed. It refuses a configuration that would make old events new again.\n\n" +
			"With --against-brokers it also connects to the archive and the message brokers of targets and sources, and refuses one that cannot be reached, lacks the\n" +
			"stream, topic or exchange, or would lose or double messages. It publishes nothing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := s.load
			if against {
				load = func() (*config.Config, error) { return s.loadWhole(cmd.Context()) }
				s.homes = func(whole *config.Config) {
					if len(whole.Databases) > 0 {
						app.Reside(whole, s.registered(cmd.Context(), whole, whole.DatabaseNames()))
					}
				}
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			if err := s.checkStart(cmd.Context(), cfg); err != nil {
				return err
			}
			database := &databaseCheck{}
			if against {
				if database, err = s.checkDatabase(cmd.Context(), cfg); err != nil {
					return err
				}
			}
			if brokers {
				warned, err := brokerWarnings(cmd.Context(), cfg)
				if err != nil {
					return err
				}
				cfg.Warnings = append(cfg.Warnings, warned...)
			}
			routes := 0
			for _, source := range cfg.Sources {
				routes += len(source.Routes)
			}
			origin := cfg.Origin
			if origin == "" {
				origin = "the environment"
			}
			if s.output == "json" {
				return s.json(map[string]any{
					"origin": origin, "sources": len(cfg.Sources), "routes": routes,
					"targets": len(cfg.Targets), "warnings": append([]string{}, cfg.Warnings...), "notes": append([]string{}, unprovedSources(cfg)...),
					"order_changes": append([]inbox.OrderChange{}, database.orders...),
					"database":      database.names,
				})
			}
			fmt.Fprintf(s.out, "ok: %s: %s, %s, %s\n", origin,
				count(len(cfg.Sources), "source"), count(routes, "route"), count(len(cfg.Targets), "target"))
			for _, warning := range cfg.Warnings {
				fmt.Fprintln(s.out, "warning: "+clean(warning))
			}
			for _, note := range unprovedSources(cfg) {
				fmt.Fprintln(s.out, "note: "+clean(note))
			}
			for _, line := range database.lines() {
				fmt.Fprintln(s.out, clean(line))
			}
			return nil
		},
	}
	check.Flags().BoolVar(&against, "against-database", false, "report renamed, removed and reordered sources and routes")
	check.Flags().BoolVar(&brokers, "against-brokers", false, "ask the message brokers whether they take and keep the messages")
	show := &cobra.Command{
		Use: "print", Short: "Print the effective configuration, without secrets", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			text, err := yaml.Marshal(cfg.Effective())
			if err != nil {
				return fmt.Errorf("writing yaml: %w", err)
			}
			if s.output == "json" {
				if text, err = yaml.YAMLToJSON(text); err != nil {
					return fmt.Errorf("writing json: %w", err)
				}
				text = visible.JSON(text)
			}
			if _, err = s.out.Write(text); err != nil || s.output == "json" {
				return err
			}
			fmt.Fprintln(s.out, "# How long what belongs to each source is kept:")
			for _, line := range cfg.Kept() {
				fmt.Fprintln(s.out, "#   "+clean(line))
			}
			return nil
		},
	}
	whole := check.RunE
	check.RunE = func(cmd *cobra.Command, args []string) error {
		if !against {
			return whole(cmd, args)
		}
		return s.eachDatabase(func() error { return whole(cmd, args) })
	}
	schema := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration file", Args: cobra.NoArgs,
		Long: "Print the JSON Schema of the configuration file. With it, an editor completes keys, shows what they mean and\n" +
			"marks mistakes. `config check` finds more: a schema cannot compare settings or ask whether a file exists.",
		RunE: func(*cobra.Command, []string) error {
			schema, err := config.Schema(catalog.Schema())
			if err != nil {
				return err
			}
			return s.json(schema)
		},
	}
	return group("config", "Check or print the configuration", check, show, schema)
}

// brokerWarnings returns what the brokers of the targets and sources, and the archive, do less safely than they could. It fails if one of them
// loses or refuses messages or bodies.
func brokerWarnings(ctx context.Context, cfg *config.Config) (warnings []string, err error) {
	var problems config.Problems
	for _, f := range append(doctor.Brokers(ctx, cfg, nil), doctor.Archive(ctx, cfg)...) {
		text := f.Check + "." + f.Subject + ": " + f.Text + "; " + f.Remedy
		if f.State == doctor.Fault {
			problems = append(problems, config.Problem{File: cfg.Origin, Text: text})
		} else {
			warnings = append(warnings, text)
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return warnings, nil
}

// checkStart returns the problems because of which a server would refuse to start with the
// configuration, one problem per line.
func (s *shell) checkStart(ctx context.Context, cfg *config.Config) error {
	err := app.Check(ctx, app.Config{
		Settings: cfg, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: readBuild().Version,
	})
	if err == nil {
		return nil
	}
	var problems config.Problems
	for line := range strings.Lines(err.Error()) {
		problems = append(problems, config.Problem{File: cfg.Origin, Text: strings.TrimSpace(line)})
	}
	return problems
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// unprovedSources returns a note for each source whose provider is unproved: no source outside Oncegate
// confirmed its rules. A custom provider gets no note, because its author answers for it.
func unprovedSources(cfg *config.Config) []string {
	var out []string
	for _, source := range cfg.Sources {
		modes := source.Provider.UnconfirmedModes()
		if len(modes) == 0 || source.Provider.IsMessage() || cfg.Providers[source.Provider.Name()] != nil {
			continue
		}
		of := ""
		if !slices.Contains(modes, providers.DefaultMode) {
			of = ", as far as mode " + strings.Join(modes, " and ") + " is concerned"
		}
		out = append(out, fmt.Sprintf("sources.%s: the entry of provider %s is proved by documentation alone%s: nobody outside Oncegate confirmed how it is signed; "+
			"verify a captured request with `oncegate providers verify` before you rely on it", source.Name, source.Provider.Name(), of))
	}
	return out
}
