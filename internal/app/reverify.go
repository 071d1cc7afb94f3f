package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/fetch"
)

// ReverifyConfig says which kept refusals [Reverify] verifies. Settings, Logger and Source are
// required.
type ReverifyConfig struct {
	Settings *config.Config
	Logger   *slog.Logger

	// Source is the name of a source of the configuration.
	Source string

	// The other fields are the same as in [refusal.Reverify].
	Cause         string
	Since         time.Time
	After         inbox.ID
	Most          int
	DryRun        bool
	Actor, Reason string
	Progress      func(r refusal.ReverifyReport)

	// Now defaults to time.Now.
	Now func() time.Time
}

// ErrConfiguration is wrapped by errors that say that the configuration does not fit the request.
// Repeating the request cannot help.
var ErrConfiguration = errors.New("configuration")

// Reverify verifies a source's kept refusals with today's secrets and admits those that verify. It
// opens its own gate and uses the routes that the servers were started with.
func Reverify(ctx context.Context, cfg ReverifyConfig) (refusal.ReverifyReport, error) {
	return withSource(ctx, cfg.Settings, cfg.Logger, cfg.Now, cfg.Source, cfg.run)
}

func (cfg *ReverifyConfig) run(ctx context.Context, a *App, s *config.Source) (report refusal.ReverifyReport, err error) {
	keys, err := a.openKeys(ctx)
	if err != nil {
		return report, err
	}
	provider, err := bound(s, keys)
	if err != nil {
		return report, err
	}
	secrets := s.Keys()
	source := &receiver.Source{
		Inbox: a.inboxSource(s), Provider: provider, ExternalURL: s.ExternalURL, Secrets: func() []providers.Secret { return secrets },
		Keep: passedHeaders(s),
	}
	run := refusal.Reverify{
		Pool: a.adminPool, Keyring: a.keys, Source: source.Inbox.ID, Name: s.Name, Cause: cfg.Cause, Since: cfg.Since, After: cfg.After, Most: cfg.Most, DryRun: cfg.DryRun,
		Actor: cfg.Actor, Reason: cfg.Reason, Progress: cfg.Progress,
		Verify: func(r *read.RefusalDetail) (*inbox.Admission, error) { return receiver.Readmit(source, r) },
	}
	if !cfg.DryRun {
		if err := a.startGate(ctx); err != nil {
			return report, err
		}
		run.Gate = a.gate
	}
	return run.Run(ctx)
}

// reverifyRate is how many unproven keys a run may fetch per minute. That is all of them, because
// there are no more than kept refusals, and the run fetches one after the other. The run does not
// use the budget of a server.
const reverifyRate = 1 << 20

// openKeys makes the fetcher of a command. It knows the keys that have verified something for a
// server, but it does not save new ones for the servers.
func (a *App) openKeys(ctx context.Context) (*fetch.Fetcher, error) {
	keys, err := fetch.New(fetch.Config{Now: a.cfg.Now, Logger: a.log, Store: keyStore{a.adminPool}, Rate: reverifyRate})
	if err != nil {
		return nil, err
	}
	a.cleanups.add("keys", keys.Stop)
	return keys, keys.Load(ctx)
}

// withSource calls do with what a command needs to admit events to a source of the configuration, and cleans up after
// it. now may be nil, which means time.Now.
func withSource[T any](
	ctx context.Context, settings *config.Config, logger *slog.Logger, now func() time.Time, name string,
	do func(ctx context.Context, a *App, s *config.Source) (T, error),
) (out T, err error) {
	if now == nil {
		now = time.Now
	}
	a, s, err := openSource(ctx, settings, logger, now, name)
	if a != nil {
		defer func() { err = errors.Join(err, a.cleanups.run(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return out, err
	}
	return do(ctx, a, s)
}

// openSource opens what withSource passes on. Unless the App is nil, the caller runs its cleanups, also after an error.
func openSource(ctx context.Context, settings *config.Config, logger *slog.Logger, now func() time.Time, name string) (*App, *config.Source, error) {
	at := slices.IndexFunc(settings.Sources, func(s *config.Source) bool { return s.Name == name })
	if at < 0 {
		return nil, nil, fmt.Errorf("%w: there is no source %q", ErrConfiguration, name)
	}
	s := settings.Sources[at]
	registry := newRegistry()
	a := &App{
		cfg: Config{Settings: settings, Logger: logger, Now: now}, settings: settings, log: logger,
		registry: registry, metrics: &mirror{own: registry}, node: NodeName(),
	}
	if err := a.openDatabase(ctx); err != nil {
		return a, nil, err
	}
	if err := a.openKeyring(ctx); err != nil {
		return a, nil, err
	}
	return a, s, a.readRegistered(ctx, s)
}

// startGate makes a gate for a command and starts it.
func (a *App) startGate(ctx context.Context) error {
	if err := a.makeGate(); err != nil {
		return err
	}
	for _, step := range a.starts {
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("starting %s: %w", step.name, err)
		}
	}
	return nil
}

// readRegistered reads the rows of a source and its routes. It refuses a configuration that no
// server was started with, because effects may only be written for routes that the workers know.
func (a *App) readRegistered(ctx context.Context, s *config.Source) error {
	registry, err := registry.Read(ctx, a.adminPool)
	if err != nil {
		return err
	}
	rows, err := sourceRows(a.settings)
	if err != nil {
		return err
	}
	if a.sources, err = registry.Resolve(rows); err != nil {
		return err
	}
	registered, known := a.sources[s.Name]
	for _, r := range s.Routes {
		_, ok := registered.Routes[r.Name]
		known = known && ok
	}
	if !known {
		return fmt.Errorf("%w: no server was started with source %s and all of its routes yet; start one with this configuration first", ErrConfiguration, s.Name)
	}
	orders := a.orders(s)
	if a.series, err = inbox.ReadSeries(ctx, a.adminPool, a.keys, orders); err != nil {
		return err
	}
	if len(a.series) < len(orders) {
		return fmt.Errorf("%w: no server was started with the order of the routes of source %s yet; start one with this configuration first", ErrConfiguration, s.Name)
	}
	return nil
}
