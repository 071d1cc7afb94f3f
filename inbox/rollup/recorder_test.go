package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/internal/session"
)

var errLost = errors.New("the connection was lost")

// unreliable loses statements before they reach the database, and answers of statements that the database has committed.
type unreliable struct {
	*pgxpool.Pool

	mu        sync.Mutex
	random    *rand.Rand
	reliable  bool
	committed int // answers that were lost after the commit, the first one among them
	late      sync.WaitGroup
}

func (u *unreliable) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	u.mu.Lock()
	fault := 3
	switch {
	case u.reliable || !strings.Contains(sql, "stat_minute"):
	case u.committed == 0: // not left to chance, because a busy machine flushes only once
		fault = 1
	default:
		fault = u.random.IntN(4)
	}
	u.mu.Unlock()
	switch fault {
	case 0: // it never arrived
		return pgconn.CommandTag{}, errLost
	case 1: // it was committed, and nobody was told
		tag, err := u.Pool.Exec(ctx, sql, args...)
		if err == nil {
			u.mu.Lock()
			u.committed++
			u.mu.Unlock()
			err = errLost
		}
		return tag, err
	case 2: // it is still under way when it is sent again
		u.late.Go(func() { _, _ = u.Pool.Exec(context.WithoutCancel(ctx), sql, args...) })
		return pgconn.CommandTag{}, errLost
	}
	return u.Pool.Exec(ctx, sql, args...)
}

type happened struct {
	source, route int32
	tenant, kind  string
}

// countAtOnce has three processes count the same things from many goroutines while their flushes fail, and compares both tables
// with what happened.
func countAtOnce(tb testing.TB, pool *pgxpool.Pool, configure func(rollup.Config) rollup.Config) {
	tb.Helper()
	const processes, goroutines, additions = 3, 4, 400
	var (
		mu    sync.Mutex
		want  = map[happened]int64{}
		lost  int
		start = time.Now()
	)
	var all sync.WaitGroup
	for process := range processes {
		db := &unreliable{Pool: pool, random: rand.New(rand.NewPCG(uint64(process), 7))}
		r, err := rollup.New(configure(rollup.Config{DB: db, Node: inbox.NewToken(), Every: time.Hour}))
		if err != nil {
			tb.Fatal(err)
		}
		r.Start(tb.Context())
		all.Go(func() {
			var counting sync.WaitGroup
			for g := range goroutines {
				counting.Go(func() {
					random := rand.New(rand.NewPCG(uint64(process), uint64(g)))
					own := map[happened]int64{}
					for range additions {
						source, route := 1+random.Int32N(3), random.Int32N(2)
						tenant := []string{"", "acme"}[random.IntN(2)]
						c := r.Counters(source, route, tenant)
						at := start.Add(-time.Duration(random.IntN(3)) * time.Minute)
						switch n := 1 + random.IntN(3); random.IntN(3) {
						case 0:
							c.AddEvents(at, n)
							own[happened{source, route, tenant, "recorded"}] += int64(n)
						case 1:
							c.Add(at, rollup.Done, n)
							own[happened{source, route, tenant, "done"}] += int64(n)
						default:
							c.AddLatency(at, 7*time.Millisecond)
							own[happened{source, route, tenant, "took_10ms"}]++
						}
					}
					mu.Lock()
					defer mu.Unlock()
					for k, n := range own {
						want[k] += n
					}
				})
			}
			done := make(chan struct{})
			go func() { counting.Wait(); close(done) }()
			for counting := true; counting; {
				select {
				case <-done:
					counting = false
				default:
				}
				_ = r.Flush(tb.Context()) // its failure is what is tested
			}
			db.mu.Lock()
			db.reliable = true
			db.mu.Unlock()
			if err := r.Stop(tb.Context()); err != nil {
				tb.Errorf("stopping: %v", err)
			}
			db.late.Wait()
			mu.Lock()
			lost += db.committed
			mu.Unlock()
		})
	}
	all.Wait()
	if lost == 0 {
		tb.Error("no answer of a committed flush was lost: the test shows nothing")
	}
	for _, table := range []string{"stat_minute", "stat_hour"} {
		got := read(tb, pool, table)
		for k, n := range want {
			if got[k] != n {
				tb.Errorf("%s says that %v happened %d times, it was %d", table, k, got[k], n)
			}
		}
		for k, n := range got {
			if want[k] == 0 {
				tb.Errorf("%s says that %v happened %d times, it was never", table, k, n)
			}
		}
	}
}

func read(tb testing.TB, pool *pgxpool.Pool, table string) map[happened]int64 {
	tb.Helper()
	rows, err := pool.Query(tb.Context(), `SELECT source_id, route_id, tenant, kind, sum(n)::bigint FROM `+table+` GROUP BY 1, 2, 3, 4`)
	if err != nil {
		tb.Fatal(err)
	}
	out := map[happened]int64{}
	var k happened
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&k.source, &k.route, &k.tenant, &k.kind, &n}, func() error { out[k] = n; return nil }); err != nil {
		tb.Fatal(err)
	}
	return out
}

// What was counted is written once, whoever counts at the same time and whatever becomes of the flushes.
func TestSumsAreWhatHappened(t *testing.T) {
	t.Parallel()
	countAtOnce(t, inboxtest.Pool(t), func(c rollup.Config) rollup.Config { return c })
}

// A recorder that does not look whether a batch is known counts what was committed twice, and the test notices.
func TestSumsNoticeABatchThatCountsTwice(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	failures := inboxtest.Record(t, func(tb testing.TB) {
		tb.Helper()
		countAtOnce(tb, pool, rollup.WithoutMarker)
	})
	if !strings.Contains(strings.Join(failures, "\n"), "stat_minute says that") {
		t.Errorf("a batch that counts twice was not noticed: %q", failures)
	}
}

// A flush that fails keeps everything, also the times of events.
func TestFlushAfterAnOutage(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	now := time.Date(2026, 11, 20, 12, 30, 30, 0, time.UTC)
	down := &switched{Pool: pool}
	r, err := rollup.New(rollup.Config{DB: down, Node: inbox.NewToken(), Every: time.Hour, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	r.Start(t.Context())
	first := now
	r.Counters(1, 0, "").AddEvents(now, 1)
	down.down.Store(true)
	for range 5 {
		if err := r.Flush(t.Context()); err == nil {
			t.Fatal("a flush without a database said that it worked")
		}
		now = now.Add(time.Minute)
		r.Counters(1, 0, "").AddEvents(now, 2)
	}
	down.down.Store(false)
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(), `SELECT minute, n FROM stat_minute ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	var minute time.Time
	var n int64
	var got []string
	if _, err := pgx.ForEachRow(rows, []any{&minute, &n}, func() error {
		got = append(got, fmt.Sprintf("%s %d", minute.UTC().Format("15:04"), n))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := "12:30 1, 12:31 2, 12:32 2, 12:33 2, 12:34 2, 12:35 2"; strings.Join(got, ", ") != want {
		t.Errorf("the minutes are %s, want %s", strings.Join(got, ", "), want)
	}
	var from, to time.Time
	if err := pool.QueryRow(t.Context(), `SELECT first_event_at, last_event_at FROM stat_source`).Scan(&from, &to); err != nil || !from.Equal(first) || !to.Equal(now) {
		t.Errorf("the source had events from %s to %s (%v), want %s and %s", from, to, err, first, now)
	}
}
