package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/definition"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/sleep"
	"github.com/oncegate/oncegate/providers/catalog"
)

// definitionsWait is how long a start waits for another session's lock on the definitions, as it does for other tables.
const definitionsWait = time.Minute

// loadWhole reads the configuration with the sources of the database. Of a configuration with several databases, none of which is named,
// it reads only the file.
func (s *shell) loadWhole(ctx context.Context) (*config.Config, error) {
	cfg, err := s.load()
	if err != nil || len(cfg.Databases) > 0 {
		return cfg, err
	}
	return s.withDefinitions(ctx, cfg)
}

// withDefinitions returns a configuration that was read from the file together with the sources of the database.
func (s *shell) withDefinitions(ctx context.Context, cfg *config.Config) (*config.Config, error) {
	all, err := s.definitions(ctx)
	if err != nil || all.Revision == 0 {
		return cfg, err
	}
	return config.Load(config.Options{File: s.configFile, Environ: s.environ, Database: s.databaseName, Catalog: new(catalog.Lazy), Definitions: all, Homes: s.homes})
}

// definitions reads the sources of the database.
func (s *shell) definitions(ctx context.Context) (all config.Definitions, err error) {
	ctx, cancel := context.WithTimeout(ctx, definitionsWait)
	defer cancel()
	var set definition.Set
	err = s.withPool(ctx, fewConnections, func(pool *pgxpool.Pool, keys *seal.Keyring) (err error) {
		for {
			var locked *pgconn.PgError
			if set, err = definition.Read(ctx, pool, keys); !errors.As(err, &locked) || locked.Code != "55P03" { // lock_not_available
				return err
			}
			if sleep.For(ctx, time.Second) != nil {
				return err
			}
		}
	})
	if err != nil {
		return all, err
	}
	all = config.Definitions{Database: s.databaseName, Revision: set.Revision, Sources: make([]config.Definition, len(set.Definitions))}
	for i := range set.Definitions {
		d := &set.Definitions[i]
		all.Sources[i] = config.Definition{Name: d.Name, Disabled: !d.Enabled, Content: d.Content}
	}
	return all, nil
}

// loadWith reads the configuration with one source of the database, and without the others.
func (s *shell) loadWith(d config.Definition) (*config.Config, error) {
	return config.Load(config.Options{
		File: s.configFile, Environ: s.environ, Database: s.databaseName, Catalog: new(catalog.Lazy),
		Definitions: config.Definitions{Database: s.databaseName, Sources: []config.Definition{d}},
	})
}

// checkDefinition returns the warnings about a source, or as a Problem why a server could not add it to its configuration.
func (s *shell) checkDefinition(ctx context.Context, d config.Definition) ([]string, error) {
	settings, err := s.loadWith(d)
	if err == nil {
		err = app.Check(ctx, app.Config{Settings: settings, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true})
	}
	if err != nil {
		return nil, &control.Problem{Code: control.CodeInvalid, Detail: explained(err)}
	}
	return settings.WarningsOf(d.Name), nil
}

// definitionCommands returns the commands that define, change, disable and enable sources of the database.
func (s *shell) definitionCommands() []*cobra.Command {
	const fromFile = "a YAML or JSON file, or - for the standard input"
	create := newDecision(s, &control.CreateSource, &cobra.Command{
		Use: "create <name>", Short: "Define a source in the database, without a restart", Args: cobra.ExactArgs(1),
		Long: "Define a source in the database. The file has what the configuration file would have below the name of the\n" +
			"source: provider, secrets, routes and so on. It contains the secrets themselves, which the database keeps\n" +
			"sealed, so a keyring is needed. Its routes lead to targets of the configuration file.\n\n" +
			"The command waits until every server serves the source. The same command again changes nothing.",
	})
	file := create.Command.Flags().String("file", "", "what the source is: "+fromFile)
	create.check = func(args []string) (err error) {
		create.request.Name = args[0]
		create.request.Definition, err = s.readDefinition(*file)
		return err
	}
	update := newDecision(s, &control.UpdateSource, &cobra.Command{
		Use: "update <name>", Short: "Change a source of the database, without a restart", Args: cobra.ExactArgs(1),
		Long: "Change a source of the database. The file has the members that change, as a JSON merge patch: each replaces\n" +
			"the member that the source has, a list replaces a whole list, and null removes a member. To rotate a secret,\n" +
			"write the new one and the old one, with until.\n\n" +
			"The command waits until every server serves the change. The same command again changes nothing.",
	})
	change := update.Command.Flags().String("file", "", "what changes: "+fromFile)
	update.check = func(args []string) (err error) {
		update.request.Name = args[0]
		update.request.Change, err = s.readDefinition(*change)
		return err
	}
	disable := newDecision(s, &control.DisableSource, &cobra.Command{
		Use: "disable <name>", Short: "Have a source of the database answer as if there were none", Args: cobra.ExactArgs(1),
		Long: "Have a source of the database answer as if there were none (404), until it is enabled. The effects of its\n" +
			"recorded events continue. `sources pause` answers 503 instead, so that the sender keeps its events.",
	})
	enable := newDecision(s, &control.EnableSource, &cobra.Command{
		Use: "enable <name>", Short: "Have a disabled source of the database take deliveries again", Args: cobra.ExactArgs(1),
		Long: "Have a disabled source of the database take deliveries again.",
	})
	for _, d := range []*decisionCommand[control.EnableSourceRequest, control.SourceDefinition]{disable, enable} {
		d.check = func(args []string) error { d.request.Name = args[0]; return nil }
		d.done, d.json = s.followDefinition(d.Command), true
	}
	create.done, create.json = s.followDefinition(create.Command), true
	update.done, update.json = s.followDefinition(update.Command), true
	return []*cobra.Command{create.Command, update.Command, disable.Command, enable.Command}
}

// readDefinition reads a file with a definition and returns it as JSON.
func (s *shell) readDefinition(file string) (json.RawMessage, error) {
	var text []byte
	var err error
	switch file {
	case "":
		return nil, usagef("--file is missing: a YAML or JSON file, or - for the standard input")
	case "-":
		text, err = io.ReadAll(s.in)
	default:
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, errorf(errorcode.File, "reading the definition: %v", err)
	}
	document, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, errorf(errorcode.File, "%s is not YAML", file) // the library's message shows the content, which has secrets
	}
	return document, nil
}

const (
	// definitionServed is how long a command waits until every process serves a change.
	definitionServed = time.Minute
	definitionPause  = 300 * time.Millisecond
)

// followDefinition waits until every process serves a changed source and says whether it does.
func (s *shell) followDefinition(cmd *cobra.Command) func(*control.SourceDefinition) error {
	return func(out *control.SourceDefinition) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), definitionServed)
		defer cancel()
		s.warnings(out.Warnings)
		changed, warnings := out.Changed, out.Warnings
		for out.Behind > 0 && sleep.For(ctx, definitionPause) == nil {
			err := s.control(ctx, "", func(caller control.Caller) (err error) {
				*out, err = control.Call(ctx, caller, &control.ShowDefinition, control.SourceReference{Name: out.Name})
				return err
			})
			if err != nil {
				break // the change is made; only who serves it is not known
			}
		}
		out.Changed, out.Warnings = changed, warnings
		if s.output == "json" {
			return s.json(out)
		}
		return s.print("%s", definitionText(out))
	}
}

// definitionText describes in one line the state of a source and which servers have taken it over.
func definitionText(d *control.SourceDefinition) string {
	what := "source " + clean(d.Name) + " is "
	if !d.Changed {
		what += "unchanged and "
	}
	if d.Enabled {
		what += "enabled"
	} else {
		what += "disabled"
	}
	switch {
	case d.Processes == 0:
		return what + "; no server runs that would serve it"
	case d.Behind > 0:
		return what + "; " + count(int(d.Behind), "server") + " of " + count(int(d.Processes), "server") + " did not take that over yet: see `oncegate nodes` and their logs"
	}
	return what + "; " + count(int(d.Processes), "server") + " took that over; deliveries go to " + clean(d.Address)
}
