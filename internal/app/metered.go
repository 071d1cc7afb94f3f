package app

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/internal/config"
)

// metered are the sources that have series of their own; nil are all of them. The others are counted
// together. The choice lasts as long as the process, because a counter must never fall.
type metered map[string]bool

// source returns the label of a source.
func (m metered) source(name string) string {
	if m == nil || m[name] || name == "" {
		return name
	}
	return receiver.OtherSource
}

// labels returns the labels of a route.
func (m metered) labels(source, route string) (string, string) {
	if m.source(source) == source {
		return source, route
	}
	return receiver.OtherSource, receiver.OtherSource
}

// meteredBound is how long a start may ask which sources have the most events.
const meteredBound = 5 * time.Second

// chooseMetered returns the sources that have series of their own: those with the most events
// lately. If the database does not say which these are, the order of the names decides.
func (a *App) chooseMetered(ctx context.Context) metered {
	most := a.settings.Metrics.Sources
	if most == config.AllSources || len(a.settings.Sources) <= most {
		return nil
	}
	events := map[string]int64{}
	if most > 0 && !a.unasked {
		ctx, cancel := context.WithTimeout(ctx, meteredBound)
		defer cancel()
		activities, err := rollup.NewReader(a.adminPool).Activities(ctx, rollup.Filter{})
		if err != nil {
			a.log.WarnContext(ctx, "reading which sources have the most events failed, so that the order of their names decides which have metrics of their own", slog.Any("error", err))
		}
		for i := range activities {
			events[activities[i].Source] = activities[i].Events
		}
	}
	names := make([]string, 0, len(a.settings.Sources))
	for _, s := range a.settings.Sources {
		names = append(names, s.Name)
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(events[y], events[x]), cmp.Compare(x, y)) })
	chosen := make(metered, most)
	for _, name := range names[:most] {
		chosen[name] = true
	}
	return chosen
}
