package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/drill"
)

func (s *shell) drillCommand() *cobra.Command {
	var f drillFlags
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Prove Oncegate on this machine and a database of yours: deliver, break things, check",
		Long: "Start several processes of this program on this machine, deliver signed events to them, break things\n" +
			"meanwhile, and check at the end that every promise was kept. Nothing of your own configuration is used.\n\n" +
			"The drill makes the schema oncegate_drill_<run> in the database that --database names, and touches no\n" +
			"other schema. --database env:NAME reads the URL from an environment variable, which keeps the\n" +
			"password out of the list of processes. The role of the URL must be able to create a schema.\n\n" +
			"The deliveries come from senders of three providers: new events, duplicates, some at the same time,\n" +
			"other payloads under a known id, wrong signatures, and events out of their order. The targets are an HTTP\n" +
			"target that deduplicates, one that cannot, and tables without a unique constraint; they fail, hang and\n" +
			"close connections after their work. --faults selects the faults:\n" +
			"  kill   ends a process with SIGKILL and starts it again\n" +
			"  cut    drops a connection at a COMMIT, before PostgreSQL has it or before its answer arrives\n" +
			"  stall  delays all traffic between a process and PostgreSQL for up to 3 s\n" +
			"  pause  stops a process with SIGSTOP for up to 4 s\n\n" +
			"Ctrl-C ends the deliveries early; the drill then finishes and reports. A second Ctrl-C ends it at once.\n" +
			"If every invariant held, the drill drops its schema and exits with 0. If one is violated, it names the\n" +
			"events, keeps the schema and the logs for you to look at, and exits with 1. It exits with 75 if it cannot\n" +
			"reach the database.",
		Example: "  oncegate drill --minutes 5 --database env:DATABASE_URL\n" +
			"  oncegate drill --minutes 60 --rate 200 --nodes 3 --faults kill,pause --database env:DATABASE_URL\n" +
			"  oncegate drill --minutes 1 --seed 42 --output json --database env:DATABASE_URL",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.drill(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.database, "database", "", "the `url` of the database for the drill's own schema, or env:NAME; required")
	flags.Float64Var(&f.minutes, "minutes", 5, "how long to deliver and break things")
	flags.IntVar(&f.rate, "rate", 50, "deliveries per second")
	flags.IntVar(&f.nodes, "nodes", 2, "how many processes take deliveries and work")
	flags.StringVar(&f.faults, "faults", drill.JoinFaults(drill.Faults()), "what to break, separated by commas, or none")
	flags.Uint64Var(&f.seed, "seed", 0, "repeat the schedule of an earlier drill; 0 draws one")
	flags.BoolVar(&f.keep, "keep", false, "leave the schema and the logs in place")
	return cmd
}

// drillFlags are the flags of `oncegate drill`.
type drillFlags struct {
	database, faults string
	minutes          float64
	rate, nodes      int
	seed             uint64
	keep             bool
}

func (s *shell) drill(ctx context.Context, f *drillFlags) error {
	database, err := s.drillDatabase(f.database)
	if err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if f.seed == 0 {
		f.seed = uint64(rand.Uint32()) + 1 //nolint:gosec // a schedule is no secret; a short number is easier to type
	}
	options := drill.Options{
		Database: database, Binary: binary, Length: time.Duration(f.minutes * float64(time.Minute)), Seed: f.seed,
		Rate: f.rate, Nodes: f.nodes, Faults: drill.ParseFaults(f.faults), Keep: f.keep,
	}
	if err := options.Validate(); err != nil {
		return usagef("%v", err)
	}
	ctx, enough, stop := untilSecondSignal(ctx)
	defer stop()
	options.Enough = enough
	bar := s.progress(int64(options.Length.Seconds()), "delivering")
	options.Log = func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if bar.shown() {
			bar.describe(text)
		} else if s.output != "json" {
			fmt.Fprintln(s.err, clean(text))
		}
	}
	options.At = func(passed time.Duration) { bar.at(int64(passed.Seconds())) }
	report, err := drill.Run(ctx, options)
	bar.done()
	if err != nil {
		return explainDrill(err)
	}
	if s.output == "json" {
		err = s.json(report)
	} else {
		s.showDrill(report, f.database)
	}
	if err == nil && !report.Held {
		err = errSilent // the report names every violation
	}
	return err
}

// drillDatabase returns the URL that --database names.
func (s *shell) drillDatabase(text string) (string, error) {
	name, fromEnv := strings.CutPrefix(text, "env:")
	switch {
	case text == "":
		return "", usagef("name the database in which the drill makes its schema: --database URL, or --database env:NAME")
	case fromEnv && s.env(name) == "":
		return "", usagef("--database %s: environment variable %s is not set or empty", clean(text), clean(name))
	case fromEnv:
		text = s.env(name)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", usagef("--database: not a URL such as postgres://user@host/database, or env:NAME")
	}
	if _, err := pgconn.ParseConfig(text); err != nil {
		return "", usagef("--database: the URL cannot be read; it must be one such as postgres://user@host/database") // the cause may quote it
	}
	return text, nil
}

// untilSecondSignal returns a channel that the first SIGINT or SIGTERM closes, and a context that the second one ends.
func untilSecondSignal(ctx context.Context) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	first := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
				if n == 0 {
					close(first)
				} else {
					cancel()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, first, func() { signal.Stop(signals); cancel() }
}

// explainDrill turns the error of a drill that could not be finished into one for the user.
func explainDrill(err error) error {
	var connect *pgconn.ConnectError
	switch {
	case errors.Is(err, drill.ErrRight):
		return usagef("%v", drill.ErrRight)
	case errors.Is(err, context.Canceled):
		return errorf(errorcode.Failed, "the drill was ended before it had finished; nothing was checked")
	case errors.As(err, &connect):
		return errorf(errorcode.DatabaseUnreachable, "%s", refusedConnection(connect, "--database"))
	}
	return err
}
