package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/jobs"
)

// makePruner makes the pruner that the prune job runs.
func (a *App) makePruner() (*prune.Pruner, error) {
	return prune.New(prune.Config{Pool: a.adminPool, Archive: a.archive, Keyring: a.keys, Logger: a.log, Budget: jobs.DefaultPruneBudget, Now: a.cfg.Now})
}

// pruneMetrics show whether pruning keeps up. Every process reads the backlog, because it matters most while no process
// makes a pass. Only the process that made the last pass knows the current rates. The counters of all processes add up.
type pruneMetrics struct {
	log    *slog.Logger
	pruner *prune.Pruner

	mu     sync.Mutex
	watch  prune.Watch
	behind bool

	archivedBodies, archivedBytes, archiveFailures prometheus.Counter

	rows       *prometheus.CounterVec
	partitions prometheus.Counter
	passes     *prometheus.CounterVec
	seconds    prometheus.Histogram
	incoming   prometheus.Gauge
	drained    prometheus.Gauge
	backlog    prometheus.Gauge
	oldest     prometheus.Gauge
	headroom   prometheus.Gauge
}

func (a *App) newPruneMetrics(pruner *prune.Pruner) (*pruneMetrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &pruneMetrics{
		log: a.log, pruner: pruner,
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_pruned_rows_total", Help: "Rows removed because they were past their horizon, by table.",
		}, []string{"table"}),
		archivedBodies: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oncegate_archived_bodies_total", Help: "Bodies and payloads of conflicts written to the archive before they were removed.",
		}),
		archivedBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oncegate_archived_bytes_total", Help: "Bytes written to the archive, compressed.",
		}),
		archiveFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oncegate_archive_failures_total", Help: "Passes of prune that removed no more bodies because the archive did not take them.",
		}),
		partitions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oncegate_pruned_partitions_total", Help: "Days of bodies removed.",
		}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_prune_passes_total", Help: "Passes of prune, by how they ended; a skipped one ended because another one was running.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "oncegate_prune_pass_seconds", Help: "How long a pass of prune took.", Buckets: []float64{.05, .1, .5, 1, 5, 10, 20, 45, 60},
		}),
		incoming: gauge("oncegate_prune_incoming_rows_per_second", "Events recorded each second, over the last hour."),
		drained:  gauge("oncegate_prune_drained_rows_per_second", "Events removed each second, over the last hour."),
		backlog:  gauge("oncegate_prune_backlog_rows", "Events that are due and that prune has not reached, counted up to 100,000."),
		oldest:   gauge("oncegate_prune_oldest_due_seconds", "How long the oldest event of that backlog has been due; 0 without one."),
		headroom: gauge("oncegate_prune_headroom_ratio", "How many times faster events can be removed than they come in; 0 means that it is not known yet."),
	}
	m.begin()
	a.starts = append(a.starts, step{name: "prune backlog", run: func(ctx context.Context) error {
		a.readEvery(ctx, "prune backlog", jobs.DefaultPruneEvery, m.readBacklog)
		return nil
	}})
	return m, a.collect(m.archivedBodies, m.archivedBytes, m.archiveFailures, m.rows, m.partitions, m.passes, m.seconds, m.incoming, m.drained, m.backlog, m.oldest, m.headroom)
}

// readBacklog sets the gauges of the backlog.
func (m *pruneMetrics) readBacklog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, orderGaugesBound)
	defer cancel()
	sample, err := m.pruner.Sample(ctx)
	if err != nil {
		m.failed(ctx, err)
		return
	}
	m.backlog.Set(float64(sample.Backlog))
	m.oldest.Set(sample.Oldest.Seconds())
}

func (m *pruneMetrics) failed(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		m.log.WarnContext(ctx, "reading how pruning keeps up failed", slog.Any("error", err))
	}
}

// pruned is called after each pass of this process.
func (m *pruneMetrics) pruned(ctx context.Context, report prune.Report) {
	if !report.Obtained {
		m.passes.WithLabelValues("skipped").Inc()
		return
	}
	outcome := "short"
	if report.Complete {
		outcome = "complete"
	}
	m.passes.WithLabelValues(outcome).Inc()
	m.seconds.Observe(report.Elapsed.Seconds())
	m.partitions.Add(float64(len(report.Partitions)))
	m.archivedBodies.Add(float64(report.Archived.Bodies))
	m.archivedBytes.Add(float64(report.Archived.Bytes))
	if report.Archived.Error != "" {
		m.archiveFailures.Inc()
	}
	for table, n := range report.Rows {
		m.rows.WithLabelValues(table).Add(float64(n))
	}
	sample, err := m.pruner.Sample(ctx)
	if err != nil {
		m.failed(ctx, err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	pace := m.watch.Add(sample, report)
	m.incoming.Set(pace.IncomingPerSecond)
	m.drained.Set(pace.DrainedPerSecond)
	m.backlog.Set(float64(pace.Backlog))
	m.oldest.Set(pace.Oldest.Seconds())
	m.headroom.Set(pace.Headroom)
	if pace.Behind && !m.behind {
		m.log.WarnContext(ctx, "pruning lags: for an hour, it removed less than came in",
			slog.Float64("incoming_per_second", pace.IncomingPerSecond), slog.Float64("drained_per_second", pace.DrainedPerSecond),
			slog.Int64("backlog", pace.Backlog), slog.Float64("oldest_due_seconds", pace.Oldest.Seconds()))
	}
	m.behind = pace.Behind
}
