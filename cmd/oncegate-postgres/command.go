package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/devpg"
)

// flags are common to all commands that manage one cluster.
type flags struct {
	dir      string
	name     string
	database string
	volatile bool
	settings map[string]string
}

// startTimeout limits the time for obtaining and starting a server.
const startTimeout = 5 * time.Minute

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "oncegate-postgres",
		Short:         "Run a private PostgreSQL for working on Oncegate",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := &flags{}
	root.PersistentFlags().StringVar(&f.dir, "dir", ".oncegate/postgres", "directory of this checkout's clusters")
	root.PersistentFlags().StringVar(&f.name, "name", "run", "name of the cluster")
	root.PersistentFlags().StringVar(&f.database, "database", "oncegate", "database to make in it")
	root.PersistentFlags().BoolVar(&f.volatile, "volatile", false, "turn fsync off: only for tests that do not test durability")
	root.PersistentFlags().StringToStringVar(&f.settings, "set", nil, "settings of the server, as name=value")
	root.AddCommand(startCommand(f), stopCommand(f), statusCommand(f), findCommand(f), obtainCommand(f), poolerCommand(f), placeCommand(f), keepCommand(f), pingCommand())
	return root
}

// printing returns a command that prints one line.
func printing(use, short string, line func(ctx context.Context, progress io.Writer) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), startTimeout)
			defer cancel()
			text, err := line(ctx, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
}

func startCommand(f *flags) *cobra.Command {
	var opts devpg.StartOptions
	cmd := printing("start", "Start the cluster, or join it if it runs, and print its address", func(ctx context.Context, progress io.Writer) (string, error) {
		binaries, err := f.obtained(ctx, progress)
		if err != nil {
			return "", err
		}
		shared, err := f.shared(binaries)
		if err != nil {
			return "", err
		}
		return shared.Start(ctx, opts)
	})
	cmd.Flags().IntVar(&opts.Until, "until-pid", 0, "stop the cluster when this process has ended (0: when told to stop)")
	cmd.Flags().BoolVar(&opts.Fresh, "fresh", false, "create the cluster again unless it runs")
	return cmd
}

func stopCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the cluster, for whomever it runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shared, err := f.found(cmd.Context())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			return shared.Stop(ctx)
		},
	}
}

func statusCommand(f *flags) *cobra.Command {
	return printing("status", "Print the cluster's address; fail if it is not running", func(ctx context.Context, _ io.Writer) (string, error) {
		shared, err := f.found(ctx)
		if err != nil {
			return "", err
		}
		dsn, running, err := shared.Address(ctx)
		if err == nil && !running {
			err = fmt.Errorf("no PostgreSQL runs in %s", shared.Config.Dir)
		}
		return dsn, err
	})
}

// pingTimeout limits the time for connecting to a server.
const pingTimeout = 10 * time.Second

func pingCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ping <connection string>", Short: "Print the version of a server; fail if it does not answer", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), pingTimeout)
			defer cancel()
			conn, err := pgconn.Connect(ctx, args[0])
			if err != nil {
				return err
			}
			defer conn.Close(context.WithoutCancel(ctx))
			_, err = fmt.Fprintln(cmd.OutOrStdout(), conn.ParameterStatus("server_version"))
			return err
		},
	}
}

func findCommand(f *flags) *cobra.Command {
	return printing("find", "Print the directory of the PostgreSQL server that would be used; fail if there is none", func(ctx context.Context, _ io.Writer) (string, error) {
		shared, err := f.found(ctx)
		return shared.Config.Binaries.Dir, err
	})
}

func obtainCommand(f *flags) *cobra.Command {
	return printing("obtain", "The same, but bring a server if there is none", func(ctx context.Context, progress io.Writer) (string, error) {
		binaries, err := f.obtained(ctx, progress)
		return binaries.Dir, err
	})
}

func poolerCommand(f *flags) *cobra.Command {
	return printing("pooler", "Print the directory of a PgBouncer, and bring one if there is none", func(ctx context.Context, progress io.Writer) (string, error) {
		dir, err := devpg.Place(f.dir)
		if err != nil {
			return "", err
		}
		program, err := obtainPooler(ctx, filepath.Join(dir, "pooler"), progress)
		return filepath.Dir(program), err
	})
}

func placeCommand(f *flags) *cobra.Command {
	return printing("place", "Print the cluster's directory", func(context.Context, io.Writer) (string, error) {
		shared, err := f.shared(devpg.Binaries{})
		return shared.Config.Dir, err
	})
}

// keepCommand returns the command that runs the keeper, which start leaves running.
func keepCommand(f *flags) *cobra.Command {
	var binaries devpg.Binaries
	cmd := &cobra.Command{
		Use:    "keep",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shared, err := f.shared(binaries)
			if err != nil {
				return err
			}
			return shared.Keep(cmd.Context(), os.NewFile(3, "ready"))
		},
	}
	cmd.Flags().StringVar(&binaries.Dir, "binaries", "", "directory of initdb and postgres")
	cmd.Flags().IntVar(&binaries.Major, "major", 0, "release of the binaries")
	return cmd
}

// obtained returns the machine's server or, if it has none, one that it downloads.
func (f *flags) obtained(ctx context.Context, progress io.Writer) (devpg.Binaries, error) {
	dir, err := devpg.Place(f.dir)
	if err != nil {
		return devpg.Binaries{}, err
	}
	return obtain(ctx, filepath.Join(dir, "binaries"), progress)
}

// found returns the cluster with the binaries that are on the machine.
func (f *flags) found(ctx context.Context) (devpg.Shared, error) {
	dir, err := devpg.Place(f.dir)
	if err != nil {
		return devpg.Shared{}, err
	}
	binaries, err := find(ctx, filepath.Join(dir, "binaries"))
	if err != nil {
		return devpg.Shared{}, err
	}
	return f.shared(binaries)
}

// shared returns the cluster that the flags name.
func (f *flags) shared(binaries devpg.Binaries) (devpg.Shared, error) {
	if f.name == "" || f.name != filepath.Base(f.name) || f.name == "binaries" || f.name == "pooler" {
		return devpg.Shared{}, fmt.Errorf("%q cannot be the name of a cluster", f.name)
	}
	dir, err := devpg.Place(f.dir)
	if err != nil {
		return devpg.Shared{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return devpg.Shared{}, errors.Join(errors.New("finding this program's own file"), err)
	}
	keeper := []string{
		self, "keep", "--dir", f.dir, "--name", f.name, "--database", f.database, "--volatile=" + strconv.FormatBool(f.volatile),
		"--binaries", binaries.Dir, "--major", strconv.Itoa(binaries.Major),
	}
	for name, value := range f.settings {
		keeper = append(keeper, "--set", name+"="+value)
	}
	return devpg.Shared{
		Config: devpg.Config{
			Dir:      filepath.Join(dir, f.name),
			Binaries: binaries,
			Database: f.database,
			Volatile: f.volatile,
			Settings: f.settings,
		},
		Keeper: keeper,
	}, nil
}
