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

	// lateAfter is the age from which the log calls the data of the lists late.
	lateAfter = 10 * time.Second
)

// Freshness returns how old the data is that lists show. Without database.list_url lists show what the primary has.
func (a *App) Freshness() session.Freshness {
	if a.dataAge == nil {
		return session.Freshness{}
	}
	return a.dataAge.Freshness()
}

// newDataAgeMetric makes the gauge of the age of the lists' data.
func (a *App) newDataAgeMetric() prometheus.Collector {
	began := a.cfg.Now()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oncegate_list_data_age_seconds",
		Help: "How old the data is, at most, that lists show; 0 unless database.list_url leads to a standby. It grows while that standby does not answer.",
	}, func() float64 {
		fresh, now := a.Freshness(), a.cfg.Now()
		if fresh.AsOf.IsZero() && (fresh.Err != nil || fresh.Standby) {
			return now.Sub(began).Seconds() // nothing is known yet
		}
		return fresh.Age(now).Seconds()
	})
}

// watchDataAge keeps measuring how old the data of the lists is.
func (a *App) watchDataAge() {
	a.dataAge = session.NewDataAge(a.adminPool, a.lists, a.cfg.Now)
	a.starts = append(a.starts, step{name: "list data", run: func(ctx context.Context) error {
		late := false
		a.readEvery(ctx, "list data", dataAgeEvery, func(ctx context.Context) { late = a.measureDataAge(ctx, late) })
		return nil
	}})
}

// measureDataAge measures once, and logs when the data becomes late or current. It returns whether it is late.
func (a *App) measureDataAge(ctx context.Context, late bool) bool {
	timed, cancel := context.WithTimeout(ctx, dataAgeBound)
	defer cancel()
	fresh := a.dataAge.Measure(timed)
	age := fresh.Age(a.cfg.Now())
	switch is := fresh.Err != nil || age >= lateAfter; {
	case ctx.Err() != nil:
		return late
	case is && !late:
		a.log.WarnContext(ctx, "the lists of the console and the API are late, or cannot be read, because of the database of database.list_url",
			slog.Duration("age", age.Truncate(time.Second)), slog.Bool("answers", fresh.Err == nil))
		return true
	case !is && late:
		a.log.InfoContext(ctx, "the lists of the console and the API are current again")
		return false
	}
	return late
}
