package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox/rollup"
)

// outsideEvery is how often silent sources and paused queues are read.
const outsideEvery = time.Minute

// countPausedQueues reads River's table directly, because River's own API lists queues page by page
// and the driver of the workers hides pauses.
const countPausedQueues = `SELECT count(*) FROM river_queue WHERE paused_at IS NOT NULL`

// makeOutsideMetrics makes the gauges of what others did or stopped doing: senders that are silent,
// and people who paused queues.
func (a *App) makeOutsideMetrics() error {
	silent := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "oncegate_silent_sources", Help: "1 for a source that has had no event for longer than is usual for it. A source without a usual interval has no series.",
	}, []string{"source"})
	paused := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "oncegate_paused_queues", Help: "Queues that are marked as paused in River's tables. Oncegate ignores the mark.",
	})
	if err := a.collect(silent, paused); err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "silence", run: func(ctx context.Context) error {
		a.readEvery(ctx, "silence", outsideEvery, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, orderGaugesBound)
			defer cancel()
			var activities []rollup.Activity
			var queues int
			b := &pgx.Batch{}
			rollup.QueueActivities(b, rollup.Filter{}, &activities)
			b.Queue(countPausedQueues).QueryRow(func(row pgx.Row) error { return row.Scan(&queues) })
			if err := a.adminPool.SendBatch(ctx, b).Close(); err != nil {
				a.log.WarnContext(ctx, "reading silent sources and paused queues failed", slog.Any("error", err))
				return
			}
			paused.Set(float64(queues))
			counts := map[string]int{}
			for i := range activities {
				activity := &activities[i]
				if _, ours := a.sources[activity.Source]; !ours || activity.SilentAfter() == 0 {
					continue
				}
				label := a.metered.source(activity.Source)
				if counts[label] += 0; activity.Silent {
					counts[label]++
				}
			}
			silent.Reset() // a source that has lost its usual interval
			for label, n := range counts {
				silent.WithLabelValues(label).Set(float64(n))
			}
		})
		return nil
	}})
	return nil
}

const (
	// readyEvery is how often the checks of readiness are made for the metric, and readyBound how
	// long they may take together.
	readyEvery = 5 * time.Second
	readyBound = 2 * time.Second
)

// makeReadyMetric makes the gauge of the checks of readiness. It is no part of a scrape, which must
// not wait for a database that does not answer.
func (a *App) makeReadyMetric() error {
	ready := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "oncegate_ready", Help: "1 for each check of readiness that passes, and 0 for one that fails.",
	}, []string{"check"})
	a.starts = append(a.starts, step{name: "readiness", run: func(ctx context.Context) error {
		a.readEvery(ctx, "readiness", readyEvery, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, readyBound)
			defer cancel()
			for _, check := range a.checks {
				if check.Name == "process" { // whether the process starts or stops is no fault
					continue
				}
				passes := 0.0
				if check.Ready(ctx) == nil {
					passes = 1
				}
				ready.WithLabelValues(check.Name).Set(passes)
			}
		})
		return nil
	}})
	return a.collect(ready)
}
