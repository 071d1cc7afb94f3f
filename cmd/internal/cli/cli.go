// Package cli implements the command line: the commands, their output and their exit codes. It
// contains no logic beyond calling operations and showing the results.
//
// [Main] runs a command line. Each command has a file named after its words: dead_discard.go
// contains `oncegate dead discard`.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

// The exit codes. Scripts depend on them: never change.
const (
	exitOK       = 0
	exitFailed   = 1  // the operation failed, or the compared values differ
	exitUsage    = 2  // wrong usage or configuration; trying again cannot help
	exitUnknown  = 3  // the outcome of an operation is unknown
	exitTryLater = 75 // a temporary failure, such as an unreachable database
)

// shell is one run of the program: its streams, environment and global flags.
type shell struct {
	in      io.Reader
	out     io.Writer
	err     io.Writer
	environ []string

	output     string // table or json
	jsonLines  bool   // json with one object per line
	asJSON     bool   // the alias of --output json
	noColor    bool
	configFile string
	server     string // the address of a server to use instead of the database

	databaseName string               // of the database that --database names; empty for every one that the command concerns
	homes        func(*config.Config) // says where sources live that have moved; nil: where the configuration says

	view listView

	freshness func() session.Freshness // of the lists that the command reads; nil if unknown
}

// Main runs the command line and returns the exit code. It writes every error to stderr, one line
// per problem, with a code that `oncegate explain` knows.
func Main(args, environ []string, in io.Reader, out, stderr io.Writer) int {
	s := &shell{in: in, out: out, err: stderr, environ: environ}
	root := s.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if err != nil {
		s.report(err)
	}
	return exitCode(err)
}

// Command returns the tree of commands. The documentation is generated from it.
func Command() *cobra.Command { return (&shell{}).root() }

func (s *shell) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "oncegate",
		Short: "A webhook inbox on PostgreSQL",
		Long: "Oncegate verifies webhooks, records each event once in PostgreSQL,\n" +
			"answers 2xx only after that commit, and carries out the effects of each event.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := s.checkOutput(cmd); err != nil {
				return err
			}
			if err := s.checkServer(cmd); err != nil {
				return err
			}
			if err := s.checkDatabaseName(cmd); err != nil {
				return err
			}
			if err := s.resolveRows(cmd, args); err != nil {
				return err
			}
			if s.server != "" {
				return nil
			}
			return s.refusePreviousName(cmd, args)
		},
	}
	root.PersistentFlags().StringVarP(&s.output, "output", "o", "table", "table, json, jsonl, which is one JSON object on each line, or csv, for lists")
	root.PersistentFlags().BoolVar(&s.asJSON, "json", false, "the same as --output json")
	root.PersistentFlags().BoolVar(&s.noColor, "no-color", false, "no colours, as with NO_COLOR")
	root.PersistentFlags().StringVarP(&s.configFile, "config", "c", "", "configuration file (default $ONCEGATE_CONFIG, then ./"+config.DefaultFile+" if it exists)")
	s.addServer(root)
	root.PersistentFlags().StringVar(&s.databaseName, "database", "", "the name of the database, of a configuration with several")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s; see `%s --help`", flagProblem(err), cmd.CommandPath())
	})
	root.AddCommand(
		s.serveCommand(),
		s.initCommand(),
		s.devCommand(),
		s.drillCommand(),
		s.migrateCommand(),
		s.configCommand(),
		s.sendCommand(),
		s.listenCommand(),
		s.callCommand(),
		s.eventsCommand(),
		s.effectsCommand(),
		s.deadCommand(),
		s.routesCommand(),
		s.replayCommand(),
		s.streamsCommand(),
		s.refusalsCommand(),
		s.reconcileCommand(),
		s.conflictsCommand(),
		s.outboxCommand(),
		s.sessionsCommand(),
		s.suppressionsCommand(),
		s.providersCommand(),
		s.pruneCommand(),
		s.eraseCommand(),
		s.auditCommand(),
		s.keysCommand(),
		s.tokensCommand(),
		s.loginsCommand(),
		s.reloadCommand(),
		s.readyCommand(),
		inEach(s, s.doctorCommand()),
		s.nodesCommand(),
		s.notificationsCommand(),
		s.historyCommand(),
		s.sourcesCommand(),
		s.targetsCommand(),
		s.statusCommand(),
		s.explainCommand(),
		s.versionCommand(),
	)
	root.Version = readBuild().Version
	root.SetVersionTemplate("oncegate {{.Version}}\n")
	wrapArgs(root)
	s.addViews(root)
	s.addCompletions(root)
	addExamples(root)
	return root
}

// checkOutput validates the flags for the form of the output.
func (s *shell) checkOutput(cmd *cobra.Command) error {
	if s.asJSON {
		if cmd.Flags().Changed("output") && s.output != "json" {
			return usagef("--json and --output %s exclude each other", clean(s.output))
		}
		s.output = "json"
	}
	switch s.output {
	case "table", "json":
	case "jsonl":
		s.output, s.jsonLines = "json", true
	case "csv":
		if !isList(cmd) {
			return usagef("--output csv is for lists, such as `oncegate effects list`; use json here")
		}
	default:
		return usagef("--output %q is unknown; known are table, json, jsonl, csv", s.output)
	}
	return nil
}

// wrapArgs turns every error about arguments into a usage error.
func wrapArgs(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = cobra.ArbitraryArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			if _, ok := errors.AsType[*commandError](err); ok {
				return err
			}
			if cmd.HasParent() && !cmd.HasSubCommands() {
				return usagef("usage: %s, not %s; see `%s --help`", strings.TrimSuffix(cmd.UseLine(), " [flags]"), plural(len(args), "argument", "arguments"), cmd.CommandPath())
			}
			return usagef("%s; see `%s --help`", oneLine(err.Error()), cmd.CommandPath())
		}
		return nil
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// group returns a command that only contains other commands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names := make([]string, len(subs))
			for i, sub := range subs {
				names[i] = sub.Name()
			}
			return usagef("%s needs one of %s; see `%s --help`", cmd.CommandPath(), strings.Join(names, ", "), cmd.CommandPath())
		},
	}
	cmd.AddCommand(subs...)
	return cmd
}

// noCommand refuses arguments of a command that only contains others: they are misspelled commands.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			known = append(known, sub.Name())
		}
	}
	return errorf(errorcode.UnknownCommand, "unknown command %q; %ssee `%s --help`", clean(args[0]), yamltree.DidYouMean(known, args[0]), cmd.CommandPath())
}

// load reads the complete configuration.
func (s *shell) load() (*config.Config, error) {
	return config.Load(config.Options{File: s.configFile, Environ: s.environ, Database: s.databaseName, Catalog: new(catalog.Lazy), Homes: s.homes})
}

// loadOffline loads the configuration for commands that use no database, so it need not name one.
func (s *shell) loadOffline() (*config.Config, error) {
	return config.Load(config.Options{File: s.configFile, Environ: s.environ, Catalog: new(catalog.Lazy), WithoutDatabase: true})
}

// catalog parses the whole catalogue.
func (s *shell) catalog() (providers.Map, error) {
	cat, err := catalog.Load()
	if err != nil {
		return nil, fmt.Errorf("loading the catalogue: %w", err)
	}
	return cat, nil
}

// env returns the value of an environment variable, or "".
func (s *shell) env(name string) string {
	for _, pair := range s.environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// flagProblem describes a wrong flag in terms of the command line.
func flagProblem(err error) string {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return oneLine(err.Error())
	}
	want := map[string]string{
		"int": "a whole number", "int64": "a whole number", "float32": "a number", "float64": "a number", "uint64": "a whole number", "duration": "a duration such as 30s", "bool": "true or false",
	}[wrong.GetFlag().Value.Type()]
	if want == "" {
		return oneLine(err.Error())
	}
	return fmt.Sprintf("--%s %q is not %s", wrong.GetFlag().Name, clean(wrong.GetValue()), want)
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}

var errSilent = errors.New("reported already")
