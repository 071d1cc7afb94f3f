package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/reconcile"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/listing"
)

// ReconcileConfig says which events [Reconcile] asks a sender for. Settings, Logger and Source are required.
type ReconcileConfig struct {
	Settings *config.Config
	Logger   *slog.Logger

	// Source is the name of a source of the configuration.
	Source string

	// Since and Until are the period. Zero values are what the configuration says, and five minutes ago.
	Since, Until time.Time

	// The other fields are the same as in [reconcile.Run].
	Resume, DryRun bool
	Cursor         string
	Actor, Reason  string
	Budget         time.Duration
	Progress       func(r reconcile.Report)

	// Now defaults to time.Now.
	Now func() time.Time
}

// Reconcile asks the sender of a source which events there were and admits those that never arrived. It opens its own
// gate and uses the routes that the servers were started with.
func Reconcile(ctx context.Context, cfg ReconcileConfig) (reconcile.Report, error) {
	return withSource(ctx, cfg.Settings, cfg.Logger, cfg.Now, cfg.Source, cfg.run)
}

func (cfg *ReconcileConfig) run(ctx context.Context, a *App, s *config.Source) (report reconcile.Report, err error) {
	if s.Reconcile == nil {
		return report, fmt.Errorf("%w: source %s has no reconcile section, which says how its sender is asked", ErrConfiguration, s.Name)
	}
	run, stop, err := a.reconcileRun(s, a.adminPool)
	if err != nil {
		return report, err
	}
	defer stop()
	now := a.cfg.Now()
	run.Until, run.Since = cfg.Until, cfg.Since
	if run.Until.IsZero() {
		run.Until = now.Add(-reconcile.Settling)
	}
	if run.Since.IsZero() {
		run.Since = now.Add(-s.Reconcile.Since)
	}
	if reach, why := reachOf(s); reach > 0 && !cfg.Resume && run.Since.Before(now.Add(-reach-time.Minute)) {
		return report, fmt.Errorf("%w: %s; ask for a later beginning", ErrConfiguration, why)
	}
	run.Resume, run.DryRun, run.Cursor, run.Budget = cfg.Resume, cfg.DryRun, cfg.Cursor, cfg.Budget
	run.Actor, run.Reason, run.Progress = cfg.Actor, cfg.Reason, cfg.Progress
	if !cfg.DryRun {
		if err := a.startGate(ctx); err != nil {
			return report, err
		}
		run.Gate = a.gate
	}
	return run.Do(ctx)
}

// reachOf returns how far back a run may ask, and why not further. 0 does not limit it. An event whose key may have been
// pruned must not be admitted, because its effects may have happened.
func reachOf(s *config.Source) (reach time.Duration, why string) {
	listed, kept := time.Duration(s.Provider.Spec().Windows.List.For), s.Keep.Tombstone
	if kept > 0 && (listed == 0 || kept < listed) {
		return kept, fmt.Sprintf("Oncegate keeps the keys of source %s for %s only, so that it cannot tell which older events have arrived", s.Name, yamltree.FormatDuration(kept))
	}
	return listed, fmt.Sprintf("%s keeps its events for %s only", s.Provider.Spec().Title, yamltree.FormatDuration(listed))
}

// reconcileRun makes a run of a source without its period. stop releases what it used.
func (a *App) reconcileRun(s *config.Source, pool *pgxpool.Pool) (run reconcile.Run, stop func(), err error) {
	list, secret := s.Reconcile.Listing(), s.Reconcile.Secret()
	client, err := listing.New(listing.Config{
		Listing: list, Credential: secret.Value, CredentialName: secret.Name, Allow: s.Reconcile.Allow, Now: a.cfg.Now,
	})
	if err != nil {
		return run, nil, err
	}
	lister := &senderList{
		client: client, source: a.inboxSource(s), now: a.cfg.Now, largest: cmp.Or(s.MaxBody, s.Provider.Limits().MaxBody),
		types: inbox.Route{Types: s.ReconciledTypes()},
	}
	return reconcile.Run{
		Pool: pool, Gate: a.gate, Lister: lister, Logger: a.log, Source: lister.source.ID, Name: s.Name,
		NewestFirst: list.Spec().Order == "newest", Now: a.cfg.Now,
	}, client.Close, nil
}

// senderList is the list of a source's sender.
type senderList struct {
	client  *listing.Client
	source  *inbox.Source
	now     func() time.Time
	largest int64
	types   inbox.Route // takes the types that the source asks for
}

// Page implements [reconcile.Lister].
func (l *senderList) Page(ctx context.Context, since, until time.Time, cursor string) (*reconcile.Page, error) {
	found, err := l.client.Page(ctx, since, until, cursor)
	if err != nil {
		return nil, senderError(err)
	}
	page := &reconcile.Page{Next: found.Next, Events: make([]reconcile.Event, len(found.Events))}
	for i := range found.Events {
		listed, event := &found.Events[i], &page.Events[i]
		event.ID, event.Created, event.Delivery, event.Unusable = listed.ID, listed.Created, listed.Delivery, listed.Unusable
		switch {
		case event.Unusable != "" || listed.Body == nil:
		case int64(len(listed.Body)) > l.largest:
			event.Unusable = "it is larger than the source takes"
		default:
			event.Admission = receiver.Listed(l.source, listed, l.now())
			event.Other = !l.types.Matches(event.Admission.Events[0].Type)
		}
	}
	return page, nil
}

// Redeliver implements [reconcile.Lister].
func (l *senderList) Redeliver(ctx context.Context, delivery string) error {
	err := l.client.Redeliver(ctx, delivery)
	if failed, ok := errors.AsType[*listing.Error](err); ok && !failed.Later {
		switch failed.Status {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusUnprocessableEntity:
			return fmt.Errorf("%w: %w", reconcile.ErrRefused, err)
		}
	}
	return senderError(err)
}

// senderError marks an error of the sender, for those who decide what to do about it.
func senderError(err error) error {
	failed, ok := errors.AsType[*listing.Error](err)
	switch {
	case ok && failed.Later:
		return fmt.Errorf("%w: %w", reconcile.ErrLater, err)
	case ok, errors.Is(err, providers.ErrElsewhere):
		return fmt.Errorf("%w: %w", reconcile.ErrSender, err)
	}
	return err
}

// makeReconcile makes the scheduled runs of the sources that ask for them.
func (a *App) makeReconcile() error {
	var sources []reconcile.Scheduled
	for _, s := range a.settings.Sources {
		reach, _ := reachOf(s)
		if s.Disabled || s.Reconcile == nil || s.Reconcile.Every == 0 {
			continue
		}
		sources = append(sources, reconcile.Scheduled{
			Source: a.sources[s.Name].ID, Name: s.Name, Every: s.Reconcile.Every, Window: s.Reconcile.Since, Reach: reach,
			Start: func() (reconcile.Run, func(), error) { return a.reconcileRun(s, a.workPool) },
		})
	}
	if len(sources) == 0 {
		return nil
	}
	if err := a.makeGate(); err != nil {
		return err
	}
	metrics := newReconcileMetrics(sources, a.metered)
	scheduler := &reconcile.Scheduler{Pool: a.workPool, Sources: sources, Logger: a.log, Now: a.cfg.Now, Fits: a.mayWork, Paused: a.pauses.Source, Done: metrics.done}
	a.starts = append(a.starts, step{name: "reconcile", run: func(ctx context.Context) error {
		a.readEvery(ctx, "reconcile", reconcile.LookEvery, scheduler.LookAtAll)
		return nil
	}})
	return a.collect(metrics.runs, metrics.events)
}

// reconcileMetrics count what the scheduled runs of this process found.
type reconcileMetrics struct {
	runs, events *prometheus.CounterVec
	metered      metered
}

func newReconcileMetrics(sources []reconcile.Scheduled, metered metered) *reconcileMetrics {
	m := &reconcileMetrics{
		metered: metered,
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_reconcile_runs_total", Help: "Scheduled runs that asked a sender which events there were, by source and outcome.",
		}, []string{"source", "outcome"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_reconcile_events_total", Help: "Events that scheduled runs found in a sender's list, by source and outcome; missing ones never arrived.",
		}, []string{"source", "outcome"}),
	}
	for _, s := range sources {
		m.runs.WithLabelValues(metered.source(s.Name), "failed")
		m.events.WithLabelValues(metered.source(s.Name), "missing")
	}
	return m
}

func reconcileOutcomes(c reconcile.Counts) map[string]int {
	return map[string]int{"other": c.Other, "known": c.Known, "late": c.Late, "missing": c.Missing, "unusable": c.Unusable}
}

func (m *reconcileMetrics) done(source string, report reconcile.Report, err error) {
	outcome := "complete"
	if err != nil {
		outcome = "failed"
	}
	source = m.metered.source(source)
	m.runs.WithLabelValues(source, outcome).Inc()
	for outcome, n := range reconcileOutcomes(report.Counts) {
		m.events.WithLabelValues(source, outcome).Add(float64(n))
	}
}
