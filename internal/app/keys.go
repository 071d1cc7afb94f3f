package app

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/providers/fetch"
)

// makeKeys makes the fetcher of the providers' keys. It uses the receiver's clock, because the age
// of a copy is compared with the time of a request. Its store is loaded before the process receives
// anything.
func (a *App) makeKeys() (*fetch.Fetcher, error) {
	keys, err := fetch.New(fetch.Config{Now: a.clock.Now, Logger: a.log, Store: keyStore{a.adminPool}})
	if err != nil {
		return nil, err
	}
	if err := a.collect(newKeyCollector(keys.Stats)); err != nil {
		return nil, err
	}
	a.starts = append(a.starts, step{name: "keys", run: func(ctx context.Context) error {
		a.cleanups.add("keys", keys.Stop)
		return keys.Start(ctx)
	}})
	return keys, nil
}

// keyStore records in the database which keys have verified something.
type keyStore struct{ pool *pgxpool.Pool }

var _ fetch.Store = keyStore{}

// Load implements [fetch.Store].
func (s keyStore) Load(ctx context.Context) ([]fetch.Copy, error) {
	keys, err := inbox.ReadVerifiedKeys(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	copies := make([]fetch.Copy, 0, len(keys))
	for i := range keys {
		k := &keys[i]
		c := fetch.Copy{URL: k.URL, Text: k.Document, FetchedAt: k.FetchedAt, ProvedAt: k.VerifiedAt}
		if copy(c.Digest[:], k.Digest) == len(c.Digest) {
			copies = append(copies, c)
		}
	}
	return copies, nil
}

// Save implements [fetch.Store].
func (s keyStore) Save(ctx context.Context, c fetch.Copy) error {
	if c.Text == nil {
		return inbox.DeleteVerifiedKey(ctx, s.pool, c.Digest[:])
	}
	return inbox.WriteVerifiedKey(ctx, s.pool, &inbox.VerifiedKey{
		Digest: c.Digest[:], URL: c.URL, Document: c.Text, FetchedAt: c.FetchedAt, VerifiedAt: c.ProvedAt,
	})
}

// keyCollector shows how fetches of keys ended. All labels are from closed sets.
type keyCollector struct {
	take                       func() fetch.Stats
	fetches, putOff, documents *prometheus.Desc
}

func newKeyCollector(take func() fetch.Stats) keyCollector {
	return keyCollector{
		take: take,
		fetches: prometheus.NewDesc("oncegate_key_fetches_total",
			"Attempts to get keys that senders publish, by whether the configuration names them or they have verified something (trusted), and by how they ended.",
			[]string{"kind", "result"}, nil),
		putOff: prometheus.NewDesc("oncegate_key_deferrals_total",
			"Keys that were not asked for: the budget for keys that have verified nothing was used up, the last attempt was a moment ago, or too many waited.",
			[]string{"cause"}, nil),
		documents: prometheus.NewDesc("oncegate_key_documents", "Documents of keys in memory, by whether they have verified something.", []string{"kind"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c keyCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.fetches
	out <- c.putOff
	out <- c.documents
}

// Collect implements [prometheus.Collector].
func (c keyCollector) Collect(out chan<- prometheus.Metric) {
	s := c.take()
	count := func(desc *prometheus.Desc, n uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
	}
	for kind, ends := range map[string]fetch.Ends{"trusted": s.Trusted, "unproven": s.Unproven} {
		count(c.fetches, ends.Got, kind, "got")
		count(c.fetches, ends.Missing, kind, "missing")
		count(c.fetches, ends.Failed, kind, "failed")
	}
	count(c.putOff, s.Budget, "budget")
	count(c.putOff, s.Pause, "pause")
	count(c.putOff, s.Crowd, "crowd")
	for kind, n := range map[string]int64{"proven": s.Proven, "unproven": s.Others} {
		out <- prometheus.MustNewConstMetric(c.documents, prometheus.GaugeValue, float64(n), kind)
	}
}
