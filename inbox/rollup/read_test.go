package rollup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/internal/session"
)

// bundle is a database with the sources shop (id 1, with route 1, ledger) and bank (id 2).
type bundle struct {
	pool   *pgxpool.Pool
	reader *rollup.Reader
	now    time.Time // the database's
}

func setup(t *testing.T, role session.PoolRole) *bundle {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	b := &bundle{pool: inboxtest.Open(t, url, schema, role, 2)}
	b.reader = rollup.NewReader(b.pool)
	storetest.Exec(t, b.pool, `INSERT INTO source (name, provider, class) VALUES ('shop', 'stripe', 'default'), ('bank', 'stripe', 'default')`)
	storetest.Exec(t, b.pool, `INSERT INTO route (source_id, name, target, kind, digest) VALUES (1, 'ledger', 'ledger', 'forward', '')`)
	if err := b.pool.QueryRow(t.Context(), `SELECT now()`).Scan(&b.now); err != nil {
		t.Fatal(err)
	}
	return b
}

// recorder counts as a process does, at times that the test gives.
func (b *bundle) recorder(t *testing.T, now func() time.Time) *rollup.Recorder {
	t.Helper()
	r, err := rollup.New(rollup.Config{DB: b.pool, Node: inbox.NewToken(), Every: time.Hour, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	r.Start(t.Context())
	return r
}

func (b *bundle) count(t *testing.T, at time.Time, do func(r *rollup.Recorder)) {
	t.Helper()
	r := b.recorder(t, func() time.Time { return at })
	do(r)
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Sums are by source, route and tenant, and each window takes what happened in it.
func TestSums(t *testing.T) {
	t.Parallel()
	b := setup(t, session.PoolAdmin)
	for _, ago := range []time.Duration{0, 10 * time.Minute, 5 * time.Hour, 3 * 24 * time.Hour, 30 * 24 * time.Hour} {
		at := b.now.Add(-ago)
		b.count(t, at, func(r *rollup.Recorder) {
			r.Counters(1, 0, "").AddEvents(at, 3)
			r.Counters(1, 0, "acme").AddEvents(at, 2)
			r.Counters(1, 0, "").Add(at, rollup.Refused, 1)
			r.Counters(1, 1, "acme").Add(at, rollup.Done, 5)
			r.Counters(2, 0, "").AddEvents(at, 7)
			for range 95 {
				r.Counters(2, 0, "").AddLatency(at, 4*time.Millisecond)
			}
			for range 5 {
				r.Counters(2, 0, "").AddLatency(at, 400*time.Millisecond)
			}
		})
	}
	text := func(f rollup.Filter) string {
		sums, err := b.reader.Sums(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, s := range sums.Rows {
			out = append(out, fmt.Sprintf("%s/%s/%s %d %d %d", s.Source, s.Route, s.Tenant, s.Recorded, s.Refused, s.Done))
		}
		return strings.Join(out, ", ")
	}
	for _, c := range []struct {
		filter rollup.Filter
		want   string
	}{
		{rollup.Filter{}, "bank// 14 0 0, shop// 6 2 0, shop//acme 4 0 0, shop/ledger/acme 0 0 10"},
		{rollup.Filter{Window: rollup.Day}, "bank// 21 0 0, shop// 9 3 0, shop//acme 6 0 0, shop/ledger/acme 0 0 15"},
		{rollup.Filter{Window: rollup.Week}, "bank// 28 0 0, shop// 12 4 0, shop//acme 8 0 0, shop/ledger/acme 0 0 20"},
		{rollup.Filter{Window: rollup.Week, Source: "bank"}, "bank// 28 0 0"},
		{rollup.Filter{Window: rollup.Week, Tenant: "acme"}, "shop//acme 8 0 0, shop/ledger/acme 0 0 20"},
		{rollup.Filter{Window: rollup.Week, Route: "ledger"}, "shop/ledger/acme 0 0 20"},
		{rollup.Filter{Source: "bank", Tenant: "acme"}, ""},
	} {
		if got := text(c.filter); got != c.want {
			t.Errorf("%+v gave %s, want %s", c.filter, got, c.want)
		}
		series, err := b.reader.Series(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		sums, err := b.reader.Sums(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var all rollup.Counts
		for i := range series.Points {
			all.Plus(&series.Points[i].Counts)
		}
		if total := sums.Total(); all != total {
			t.Errorf("%+v: the series adds up to %+v, the sums to %+v", c.filter, all, total)
		}
	}
	sums, err := b.reader.Sums(t.Context(), rollup.Filter{Source: "bank"})
	if err != nil {
		t.Fatal(err)
	}
	ack := sums.Total().Acknowledged
	if p50, p99 := ack.Quantile(0.5), ack.Quantile(0.99); ack.Count() != 200 || p50 < 2*time.Millisecond || p50 > 5*time.Millisecond || p99 < 200*time.Millisecond || p99 > 500*time.Millisecond {
		t.Errorf("of %d acknowledgements half took %s and 99%% %s", ack.Count(), p50, p99)
	}
	if _, err := b.reader.Sums(t.Context(), rollup.Filter{Window: "1y"}); err == nil || !strings.Contains(err.Error(), "known are 1h, 24h and 7d") {
		t.Errorf("a window that there is not gave %v", err)
	}
}

// A source is silent if it is quiet for longer than it usually is.
func TestActivity(t *testing.T) {
	t.Parallel()
	b := setup(t, session.PoolAdmin)
	storetest.Exec(t, b.pool, `INSERT INTO source (name, provider, class) VALUES ('nightly', 'stripe', 'default'), ('rare', 'stripe', 'default'), ('never', 'stripe', 'default'),
		('burst', 'stripe', 'default'), ('bursts', 'stripe', 'default'), ('new', 'stripe', 'default')`)
	hour := b.now.Truncate(time.Hour)
	insert := func(source int, at time.Time, n int) {
		storetest.Exec(t, b.pool, fmt.Sprintf(`INSERT INTO stat_hour VALUES (%d, 'recorded', '%s', 0, '', %d)`, source, at.Format(time.RFC3339), n))
		storetest.Exec(t, b.pool, fmt.Sprintf(`INSERT INTO stat_source VALUES (%d, '', '%[2]s', '%[2]s')
			ON CONFLICT ON CONSTRAINT stat_source_pkey DO UPDATE SET last_event_at = greatest(stat_source.last_event_at, excluded.last_event_at)`, source, at.Format(time.RFC3339)))
	}
	for h := range 24 * 10 {
		at := hour.Add(-time.Duration(h) * time.Hour)
		insert(1, at, 60) // shop goes on
		if h >= 3 {
			insert(2, at, 60) // bank has stopped
		}
		if h >= 3 && (h-3)%24 == 0 {
			insert(3, at, 5) // a batch each night
		}
	}
	insert(4, hour.Add(-200*time.Hour), 2)
	insert(6, hour.Add(-2*time.Hour), 500) // one burst, also over the full hour
	insert(6, hour.Add(-3*time.Hour), 20)
	insert(7, hour.Add(-72*time.Hour), 500)
	insert(7, hour.Add(-120*time.Hour), 500)
	for h := range 12 {
		insert(8, hour.Add(-time.Duration(h+2)*time.Hour), 60) // half a day old, and its nights are not known
	}
	storetest.Exec(t, b.pool, fmt.Sprintf(`UPDATE stat_source SET last_event_at = '%s' WHERE source_id = 1`, b.now.Add(-time.Minute).Format(time.RFC3339)))
	storetest.Exec(t, b.pool, `UPDATE source SET updated_at = now()`)
	all, err := b.reader.Activities(t.Context(), rollup.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]rollup.Activity{}
	for _, a := range all {
		got[a.Source] = a
	}
	for source, silent := range map[string]bool{"shop": false, "bank": true, "nightly": false, "rare": false, "never": false, "burst": false, "bursts": false, "new": false} {
		a, ok := got[source]
		if !ok || a.Silent != silent {
			t.Errorf("%s: %+v, want silent %t", source, a, silent)
		}
	}
	if a := got["nightly"]; a.LongestPause != 23*time.Hour || a.Events != 50 {
		t.Errorf("nightly pauses for %s and had %d events, want 23h and 50", a.LongestPause, a.Events)
	}
	for _, source := range []string{"burst", "bursts", "new"} {
		if a := got[source]; a.SilentAfter() != 0 || a.Events == 0 {
			t.Errorf("%s has no usual pauses, and counts as silent after %s: %+v", source, a.SilentAfter(), a)
		}
	}
	if a := got["never"]; a.LastEvent != nil || a.SilentAfter() != 0 {
		t.Errorf("never has had no event: %+v", a)
	}
	if other, err := b.reader.Activities(t.Context(), rollup.Filter{Tenant: "acme"}); err != nil || len(other) != 0 {
		t.Errorf("a tenant without events sees %v (%v)", other, err)
	}
}

// A source that takes no deliveries is not silent, and one that takes them again has as long as it usually takes.
func TestWhatIsClosedIsNotSilent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql    string
		silent bool
	}{
		"open":                   {`SELECT`, true},
		"disabled":               {`UPDATE source SET disabled = true`, false},
		"paused":                 {`INSERT INTO pause (source_id, actor, reason) VALUES (1, 'ann', 'x')`, false},
		"its route is paused":    {`INSERT INTO pause (route_id, actor, reason) VALUES (1, 'ann', 'x')`, true},
		"of notifications":       {`INSERT INTO notification_look (source) VALUES ('shop') ON CONFLICT (one) DO UPDATE SET source = 'shop'`, false},
		"configured no more":     {`UPDATE source SET updated_at = now() + interval '1 minute' WHERE name = 'bank'`, false},
		"of a process before":    {`UPDATE source SET updated_at = now() + interval '1 minute' WHERE name = 'bank'; INSERT INTO node (id, name, version, roles, configuration, key_ids, key_fingerprints, route_ids, started_at, heartbeat) VALUES (gen_random_uuid(), 'a', '1', '{}', 'c', '{}', '{}', '{1}', now(), now())`, true},
		"taken again":            {`UPDATE source SET awaited_since = now() - interval '10 minutes'`, false},
		"taken again, for hours": {`UPDATE source SET awaited_since = now() - interval '3 hours'`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, session.PoolAdmin)
			storetest.Exec(t, b.pool, `INSERT INTO stat_hour SELECT 1, 'recorded', date_trunc('hour', now()) - h * interval '1 hour', 0, '', 60 FROM generate_series(5, 100) h`)
			storetest.Exec(t, b.pool, `INSERT INTO stat_source VALUES (1, '', now() - interval '100 hours', now() - interval '5 hours')`)
			storetest.Exec(t, b.pool, c.sql)
			all, err := b.reader.Activities(t.Context(), rollup.Filter{Source: "shop"})
			if err != nil || len(all) != 1 || all[0].Silent != c.silent {
				t.Errorf("%+v, %v, want silent %t", all, err, c.silent)
			}
		})
	}
}

// Whatever is asked is found by ranges of the primary key, in large tables and in tables that were never analysed.
func TestReadPlans(t *testing.T) {
	t.Parallel()
	large := setup(t, session.PoolAdmin)
	storetest.Exec(t, large.pool, `INSERT INTO source (name, provider, class) SELECT 'source-' || n, 'stripe', 'default' FROM generate_series(3, 20) n`)
	for _, table := range []struct{ name, step, since string }{{"stat_minute", "1 minute", "2 days"}, {"stat_hour", "1 hour", "90 days"}} {
		storetest.Exec(t, large.pool, `INSERT INTO `+table.name+` SELECT s, k, at, 0, '', 1
			FROM generate_series(1, 20) s, unnest(ARRAY['recorded', 'duplicate', 'took_5ms']) k,
				generate_series(date_bin('1 hour', now(), 'epoch') - interval '`+table.since+`', now(), interval '`+table.step+`') at`)
		storetest.Exec(t, large.pool, `ANALYZE `+table.name)
	}
	never := setup(t, session.PoolGate)
	for _, f := range []rollup.Filter{
		{}, {Window: rollup.Day}, {Window: rollup.Week}, {Source: "shop"}, {Tenant: "acme"}, {Source: "shop", Route: "ledger", Tenant: "acme", Window: rollup.Week},
	} {
		for name, q := range rollup.Queries(f) {
			for size, plan := range map[string]string{
				"large": storetest.Explain(t, large.pool, q.SQL, q.Args...), "never analysed": storetest.GenericPlan(t, never.pool, q.SQL),
			} {
				if strings.Contains(plan, "Seq Scan on stat_") || !strings.Contains(plan, "Index Cond: ((source_id = s.id) AND (kind = ") {
					t.Errorf("%s of %+v in %s tables:\n%s", name, f, size, plan)
				}
			}
		}
	}
}
