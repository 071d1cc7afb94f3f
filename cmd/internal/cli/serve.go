package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/cmd/internal/telemetry"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/fold"
	"github.com/oncegate/oncegate/internal/server"
	"github.com/oncegate/oncegate/internal/visible"
	"github.com/oncegate/oncegate/providers/catalog"
)

func (s *shell) serveCommand() *cobra.Command {
	var roles []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Take deliveries and carry out effects",
		Long: "Take deliveries (role receive) and carry out effects (role work), until SIGTERM or SIGINT. Then the\n" +
			"process accepts no more deliveries, commits those that wait, and finishes the running effects. A second\n" +
			"signal ends it at once; no acknowledged event is lost.\n\n" +
			"SIGHUP makes it read the configuration file and all secrets again, as `oncegate reload` does. It keeps the\n" +
			"configuration that it has if it cannot apply the new one, and the log says why.\n\n" +
			"If OTEL_EXPORTER_OTLP_ENDPOINT is set, it exports traces and metrics there, by the standard variables of\n" +
			"OpenTelemetry.\n\n" +
			"If other sessions keep the tables locked, a start waits for a minute and names the session that has the\n" +
			"lock. It exits with 75 if it does not get the lock, or if it cannot reach the database.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("role") && s.env("ONCEGATE_ROLE") != "" {
				roles = strings.Split(s.env("ONCEGATE_ROLE"), ",")
			}
			receive, work, err := parseRoles(roles)
			if err != nil {
				return err
			}
			file, err := s.load()
			if err != nil {
				return err
			}
			tuneMemory(s)
			logger, flush, err := foldingLogger(s, file.Log)
			if err != nil {
				return err
			}
			defer flush()
			for _, warning := range file.Warnings { // also if the database cannot be reached
				logger.Warn("configuration", slog.String("warning", warning))
			}
			cfg := file
			if len(file.Databases) == 0 { // otherwise each database is read when it is served
				cfg, err = s.withDefinitions(cmd.Context(), file)
			}
			if err != nil && file.Buffer.On() && app.IsAway(err) {
				cfg, err = file, nil // the start fails likewise, or takes deliveries into the buffer
			}
			if err != nil {
				return err
			}
			for _, warning := range cfg.Warnings {
				if !slices.Contains(file.Warnings, warning) {
					logger.Warn("configuration", slog.String("warning", warning))
				}
			}
			return s.run(cmd.Context(), app.Config{
				Settings: cfg, Logger: logger, LogFolds: true, Receive: receive, Work: work, Wait: true, Version: readBuild().Version,
			}, s.reloads(), func(srv process) error {
				attrs := []any{slog.String("admin", srv.AdminAddr().String()), slog.Bool("receive", receive), slog.Bool("work", work)}
				if addr := srv.PublicAddr(); addr != nil {
					attrs = append(attrs, slog.String("public", addr.String()))
				}
				logger.Info("serving", attrs...)
				return nil
			})
		},
	}
	cmd.Flags().StringSliceVar(&roles, "role", []string{"receive", "work"}, "what this process does: receive, work or both (ONCEGATE_ROLE)")
	return cmd
}

func parseRoles(roles []string) (receive, work bool, err error) {
	for _, role := range roles {
		switch strings.TrimSpace(role) {
		case "receive":
			receive = true
		case "work":
			work = true
		default:
			return false, false, usagef("--role %q is unknown; known are receive, work", clean(role))
		}
	}
	if !receive && !work {
		return false, false, usagef("--role is empty; known are receive, work")
	}
	return receive, work, nil
}

// reloads returns how a server reads its configuration again. Its environment stays what it was at the start.
func (s *shell) reloads() *server.ReloadConfig {
	return &server.ReloadConfig{
		Load: func() (*server.Loaded, error) {
			cfg, err := s.loadWhole(context.Background())
			if err != nil {
				return nil, err
			}
			logger, flush, err := foldingLogger(s, cfg.Log)
			if err != nil {
				return nil, err
			}
			return &server.Loaded{Settings: cfg, Logger: logger, Release: flush}, nil
		},
		LoadWith: s.loadWith,
		Explain:  explained,
	}
}

// explained returns the text of an error in one line.
func explained(err error) string {
	lines := messages(err)
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "; ")
}

// process is a [server.Server] or, for several databases, a [server.Group].
type process interface {
	prometheus.Gatherer
	Serve(ctx context.Context) error
	Started() <-chan struct{}
	Reload(ctx context.Context) error
	PublicAddr() net.Addr
	AdminAddr() net.Addr
}

// open opens the process that a configuration asks for.
func (s *shell) open(ctx context.Context, cfg app.Config, reloads *server.ReloadConfig) (process, error) {
	if len(cfg.Settings.Databases) > 0 {
		return server.OpenGroup(server.GroupConfig{App: cfg, Load: s.loadGroup, LoadWith: s.loadGroupWith, Explain: explained}), nil
	}
	srv, err := server.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if reloads != nil {
		srv.Reloads(*reloads)
	}
	return srv, nil
}

// loadGroup reads the whole configuration with the sources that are stored in one of its databases.
func (s *shell) loadGroup(ctx context.Context, database string) (*server.Loaded, error) {
	all, err := s.of(database).definitions(ctx)
	if err != nil {
		return nil, err
	}
	whole, err := s.loadWholeWith(all)
	if err != nil {
		return nil, err
	}
	logger, flush, err := foldingLogger(s, whole.Log)
	if err != nil {
		return nil, err
	}
	return &server.Loaded{Settings: whole, Logger: logger.With(slog.String("database", database)), Release: flush}, nil
}

// loadGroupWith reads the whole configuration with one source that is stored in a database.
func (s *shell) loadGroupWith(database string, d config.Definition) (*config.Config, error) {
	return s.loadWholeWith(config.Definitions{Database: database, Sources: []config.Definition{d}})
}

func (s *shell) loadWholeWith(all config.Definitions) (*config.Config, error) {
	return config.Load(config.Options{File: s.configFile, Environ: s.environ, Catalog: new(catalog.Lazy), Definitions: all})
}

// run opens a Server and serves until the process receives a signal or a part of the Server fails.
// It calls ready once the Server serves. If reloads is not nil, SIGHUP and the API reload the configuration.
func (s *shell) run(ctx context.Context, cfg app.Config, reloads *server.ReloadConfig, ready func(process) error) error {
	exported, err := telemetry.Open(ctx, telemetry.Config{Env: s.env, Logger: cfg.Logger, Version: cfg.Version, Instance: app.NodeName()})
	if err != nil {
		return errorf(errorcode.Config, "%v", err)
	}
	cfg.Traces = exported.Traces()
	cut := false // by a second signal, which waits for nothing
	defer func() {
		if !cut {
			exported.Close(ctx)
		}
	}()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	hangups := make(chan os.Signal, 1) // one that comes during a reload is kept for another reload
	if reloads != nil {
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started, ended := make(chan process, 1), make(chan error, 1)
	go func() {
		srv, err := s.open(ctx, cfg, reloads)
		if err != nil {
			ended <- err
			return
		}
		exported.Measure(srv)
		go func() {
			select {
			case <-srv.Started():
				started <- srv
				reloadOnHangup(ctx, srv, hangups)
			case <-ctx.Done():
			}
		}()
		ended <- srv.Serve(ctx)
	}()
	var failure error
	select {
	case err := <-ended:
		return listenHint(err)
	case <-signals:
		cancel()
		<-ended //nolint:errcheck // the start was interrupted and undone
		return nil
	case srv := <-started:
		failure = ready(srv)
	}
	if failure == nil {
		select {
		case err := <-ended:
			return err
		case got := <-signals:
			cfg.Logger.Info("stopping", slog.String("signal", got.String()))
		}
	}
	cancel()
	select {
	case err := <-ended:
		return errors.Join(failure, err)
	case <-signals:
		cut = true
		// Acknowledged deliveries are committed. Expiring leases and redeliveries complete the
		// rest.
		return errors.Join(failure, errors.New("a second signal ended the process before it was drained"))
	}
}

// reloadOnHangup reloads the configuration on each SIGHUP until ctx ends. The Server logs how each reload ends.
func reloadOnHangup(ctx context.Context, srv process, hangups <-chan os.Signal) {
	for {
		select {
		case <-hangups:
			_ = srv.Reload(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// listenHint adds advice to the error of a port that is in use.
func listenHint(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; stop what uses it, or set PORT (public) or ONCEGATE_ADMIN (admin)", err)
	}
	return err
}

// foldingLogger is newLogger for a long-running process: it folds repeated lines. At the end, flush
// writes how many lines were folded.
func foldingLogger(s *shell, cfg config.Log) (logger *slog.Logger, flush func(), err error) {
	h, err := fold.New(fold.Config{Next: newLogger(s, cfg).Handler(), Mode: cfg.Events, Hostile: receiver.UnprovedMessages()})
	if err != nil {
		return nil, nil, err
	}
	return slog.New(h), h.Close, nil
}

// newLogger returns a logger that writes to stderr according to the configuration.
func newLogger(s *shell, cfg config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.Level}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(s.err, options))
	}
	return slog.New(slog.NewJSONHandler(visible.NewWriter(s.err), options))
}
