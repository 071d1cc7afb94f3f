package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/config"
)

const (
	// strandedBound is how long a start may count the effects and keys of removed sources and
	// routes.
	strandedBound = 10 * time.Second

	// strandedLines is how many removed sources and routes a start names.
	strandedLines = 20
)

// CheckRegistration returns what a server started with the configuration would rename, and which
// effects and keys no process would handle. It writes nothing.
func CheckRegistration(ctx context.Context, pool *pgxpool.Pool, cfg *config.Config) (*registry.RegistrationCheck, error) {
	rows, err := sourceRows(cfg)
	if err != nil {
		return nil, err
	}
	return registry.Registration{Pool: pool, Sources: rows, Configuration: cfg.Fingerprint()}.Check(ctx)
}

// warnStranded logs the effects and keys of removed sources and routes. They do not make the start
// fail.
func (a *App) warnStranded(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, strandedBound)
	defer cancel()
	check, err := CheckRegistration(ctx, a.adminPool, a.settings)
	if err != nil {
		a.log.WarnContext(ctx, "the remains of removed sources and routes could not be counted", slog.Any("error", err))
		return
	}
	lines := 0
	warn := func(message, what string, args ...any) {
		if lines++; lines <= strandedLines {
			a.log.WarnContext(ctx, message, append(args, slog.String("what", what))...) //nolint:sloglint // one of the constants below
		}
	}
	for _, r := range check.Routes {
		warn("a removed route has unsettled effects", r.String(), slog.String("source", r.Source), slog.String("route", r.Route))
	}
	for _, s := range check.Sources {
		warn("a removed source holds keys", s.String(), slog.String("source", s.Source))
	}
	if lines > strandedLines {
		a.log.WarnContext(ctx, "more removed sources and routes are not shown; `oncegate config check --against-database` lists them all",
			slog.Int("more", lines-strandedLines))
	}
}

// makeStrandedMetric makes the gauge of effects that no process carries out. Its labels come from
// the database and only name removed routes.
func (a *App) makeStrandedMetric() error {
	gauge := newRouteGauge("oncegate_stranded_effects",
		"Effects that wait for a route that no live configuration names, looked for among the 100,000 that are due first and counted up to 10,001.")
	if err := a.collect(gauge); err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "stranded effects", run: func(ctx context.Context) error {
		a.readEvery(ctx, "stranded effects", strandedEvery, func(ctx context.Context) { a.readStranded(ctx, gauge) })
		return nil
	}})
	return nil
}

// strandedEvery is how often stranded effects are counted. Their number changes slowly.
const strandedEvery = time.Minute

func (a *App) readStranded(ctx context.Context, gauge *prometheus.GaugeVec) {
	ctx, cancel := context.WithTimeout(ctx, strandedBound)
	defer cancel()
	routes, err := registry.ReadStrandedEffects(ctx, a.adminPool)
	if err != nil {
		a.log.WarnContext(ctx, "counting effects of removed routes failed", slog.Any("error", err))
		return
	}
	gauge.Reset() // a route that is configured again is no longer counted
	for _, r := range routes {
		gauge.WithLabelValues(r.Source, r.Route).Set(float64(r.Waiting()))
	}
}
