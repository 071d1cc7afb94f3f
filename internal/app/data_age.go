package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/internal/session"
)

const (
	// dataAgeEvery is how often the age of the lists' data is measured.
	dataAgeEvery = time.Second

	// dataAgeBound bounds one measurement.
	dataAgeBound = 3 * time.Second

	// lateAfter is the age from which the log and the console call the data of the lists late.
	lateAfter = 10 * time.Second
)

// Freshness returns how old the data is that lists show. Without database.list_url lists show what the primary has.
func (a *App) Freshness() session.Freshness {
	if a.dataAge == nil {
		return session.Freshness{}
	}
	return a.dataAge.Freshness()
}

// watchDataAge keeps measuring how old the data of the lists is.
func (a *App) watchDataAge() error {
	a.dataAge = session.NewDataAge(a.adminPool, a.lists, a.cfg.Now)
	began := a.cfg.Now()
	a.starts = append(a.starts, step{name: "list data", run: func(ctx context.Context) error {
		late := false
		a.readEvery(ctx, "list data", dataAgeEvery, func(ctx context.Context) {
			timed, cancel := context.WithTimeout(ctx, dataAgeBound)
			fresh := a.dataAge.Measure(timed)
			cancel()
			now := a.cfg.Now()
			switch is := fresh.Err != nil || fresh.Age(now) >= lateAfter; {
			case ctx.Err() != nil || is == late:
			case is:
				late = true
				a.log.WarnContext(ctx, "the lists of the console and the API are late, or cannot be read, because of the database of database.list_url",
					slog.Duration("age", fresh.Age(now).Truncate(time.Second)), slog.Bool("answers", fresh.Err == nil))
			default:
				late = false
				a.log.InfoContext(ctx, "the lists of the console and the API are current again")
			}
		})
		return nil
	}})
	return a.collect(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oncegate_list_data_age_seconds",
		Help: "How old the data is, at most, that lists read from a standby show. It grows while the standby of database.list_url does not answer; there is none without that key.",
	}, func() float64 {
		fresh, now := a.dataAge.Freshness(), a.cfg.Now()
		if fresh.AsOf.IsZero() && (fresh.Err != nil || fresh.Standby) {
			return now.Sub(began).Seconds() // nothing is known yet
		}
		return fresh.Age(now).Seconds()
	}))
}
