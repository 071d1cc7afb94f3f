package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox/read"
)

// keyGaugesEvery is how often the gauges of keys are read. They change slowly.
const keyGaugesEvery = time.Minute

// makeKeyMetrics makes the gauges of keys in a process that carries out effects.
func (a *App) makeKeyMetrics() error {
	age := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "oncegate_keys", Help: "About how many keys of events there are by age, as the statistics of the database say: each is counted in the first age that it has not passed.",
	}, []string{"age"})
	expiry := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "oncegate_effect_keys", Help: "Effect keys by the time within which they expire, among the 10,000 that expire first.",
	}, []string{"expires"})
	for _, name := range read.KeyAges() {
		age.WithLabelValues(name)
	}
	for _, name := range read.KeyExpiries() {
		expiry.WithLabelValues(name)
	}
	if err := a.collect(age, expiry); err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "key gauges", run: func(ctx context.Context) error {
		a.readEvery(ctx, "key gauges", keyGaugesEvery, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, orderGaugesBound)
			defer cancel()
			stats, err := read.CountKeys(ctx, a.adminPool, a.cfg.Now())
			if err != nil {
				a.log.WarnContext(ctx, "reading how old keys are failed", slog.Any("error", err))
				return
			}
			for name, n := range stats.ByAge {
				age.WithLabelValues(name).Set(n)
			}
			for name, n := range stats.ByExpiry {
				expiry.WithLabelValues(name).Set(n)
			}
		})
		return nil
	}})
	return nil
}
