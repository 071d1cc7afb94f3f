package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// droppedLine is the age of the first day of bodies that is dropped: past the 30 days of the class. The next ones are
// older.
const droppedLine = 40 * 24 * time.Hour

// dayReport is the outcome of dropping one large day of bodies.
type dayReport struct {
	MiB     float64 `json:"mib"`
	Seconds float64 `json:"seconds"`

	// Longest is the longest wait of a delivery while the day was dropped and for half a second after. LongestAlone and
	// MostAlone are the median and the largest of such waits in equally long windows before and after.
	Longest      float64 `json:"longest_ms"`
	LongestAlone float64 `json:"longest_alone_ms"`
	MostAlone    float64 `json:"most_alone_ms"`

	// Discarded is how many bytes the file system told the disk meanwhile that it need not keep.
	Discarded float64 `json:"discarded_mib"`
}

// measureDays fills days of bodies and drops each of them while the receiver takes deliveries.
func (b *pruneBench) measureDays(ctx context.Context, r *pruneReport) error {
	if b.days == 0 {
		return nil
	}
	for i := range b.days {
		d, err := b.measureDay(ctx, r.Rate, time.Now().Add(-droppedLine-time.Duration(i)*24*time.Hour))
		if err != nil {
			return err
		}
		r.Days = append(r.Days, d)
		progress("day %d/%d  %.0f MiB went in %.2f s; a delivery waited %.1f ms at most, in as long without prune %.1f ms (median) and %.1f ms (most)",
			i+1, b.days, d.MiB, d.Seconds, d.Longest, d.LongestAlone, d.MostAlone)
	}
	all := func(of func(dayReport) float64) []float64 {
		out := make([]float64, len(r.Days))
		for i, d := range r.Days {
			out[i] = of(d)
		}
		return out
	}
	longest := all(func(d dayReport) float64 { return d.Longest })
	r.compareDays(fmt.Sprintf("seconds until a day of %d MiB was gone", b.body), all(func(d dayReport) float64 { return d.Seconds }), maxDropSeconds)
	r.compareDays("longest wait of a delivery meanwhile, ms", longest, maxDeliveryWait)
	r.compareDays("the same in as long a time without prune, ms", all(func(d dayReport) float64 { return d.LongestAlone }), 0)
	r.compareDays("MiB that its disk was told to discard", all(func(d dayReport) float64 { return d.Discarded }), 0)
	return nil
}

// compareDays adds a ratio that the worst of the values decides; a limit of 0 is no target.
func (r *pruneReport) compareDays(what string, values []float64, atMost float64) {
	s := newSpread(values)
	line := ratio{What: what, Median: s.median, Min: s.min, Max: s.max}
	if atMost > 0 {
		line.Target, line.Met = fmt.Sprintf("<= %g, every time", atMost), s.max <= atMost
	}
	r.Ratios = append(r.Ratios, line)
}

// measureDay fills one day and drops it in the middle of a load.
func (b *pruneBench) measureDay(ctx context.Context, rate float64, at time.Time) (d dayReport, err error) {
	table, bytes, err := b.fillDay(ctx, at)
	if err != nil {
		return d, err
	}
	const before, measured = 5 * time.Second, 14 * time.Second
	b.runs++
	w := workload{
		connections: openConnections, kind: onlyNew, bodySize: bodySize, rate: rate, warmUp: 500 * time.Millisecond, measured: measured, spans: true,
	}
	var began, gone time.Time
	var pruned error
	var wg sync.WaitGroup
	wg.Go(func() {
		<-time.After(before)
		// A day with many events is searched in more than one pass.
		for passes := 0; gone.IsZero() && pruned == nil && passes < 3; passes++ {
			_, pruned = b.prune(ctx, 2*time.Second, func(p prune.Progress) {
				switch {
				case "oncegate."+p.Step != table:
				case p.Done == 0:
					began = cmp.Or(began, time.Now())
				default:
					gone = cmp.Or(gone, time.Now())
				}
			})
		}
	})
	kept, err1 := lab.DiscardedBytes()
	got, err2 := generate(ctx, b.address, b.runs, w, func() {}, func() {})
	wg.Wait()
	gave, err3 := lab.DiscardedBytes()
	if err := errors.Join(err1, err2, err3, pruned); err != nil {
		return d, err
	}
	if gone.IsZero() {
		return d, fmt.Errorf("the day %s was not dropped", table)
	}
	d = dayReport{MiB: float64(bytes) / (1 << 20), Seconds: gone.Sub(began).Seconds(), Discarded: float64(gave-kept) / (1 << 20)}
	window := gone.Sub(began) + 500*time.Millisecond
	d.Longest = got.longest(began, began.Add(window))
	var alone []float64
	for from := began.Add(-window); !from.Before(began.Add(-before)); from = from.Add(-window) {
		alone = append(alone, got.longest(from, from.Add(window)))
	}
	// Measured without prune is only what comes after the checkpointer's removals and the rest of the pass.
	for from := began.Add(6 * time.Second); !from.Add(window).After(began.Add(measured - before)); from = from.Add(window) {
		alone = append(alone, got.longest(from, from.Add(window)))
	}
	if len(alone) > 0 {
		d.LongestAlone, d.MostAlone = median(alone), slices.Max(alone)
	}
	return d, nil
}

const fillDaySQL = `
INSERT INTO %s (class, id, headers, body)
SELECT 'default', (lpad(to_hex((extract(epoch FROM $1::timestamptz) * 1000)::bigint), 12, '0') || '70008' || lpad(to_hex($2::bigint + n), 15, '0'))::uuid,
    '{}', convert_to(repeat('x', 1900), 'UTF8')
FROM generate_series(1, $3::bigint) n`

// fillDay makes the day and returns its table and size.
func (b *pruneBench) fillDay(ctx context.Context, at time.Time) (table string, bytes int64, err error) {
	if err := inbox.EnsurePartitions(ctx, b.pool, []string{"default"}, at, 0); err != nil {
		return "", 0, err
	}
	table = "oncegate.inbox_body_default" + at.UTC().Format("_20060102")
	progress("writing %d MiB of bodies", b.body)
	// Not compressed, because it would be a small day otherwise.
	if _, err := b.db.Exec(ctx, "ALTER TABLE "+table+" ALTER COLUMN body SET STORAGE PLAIN"); err != nil {
		return "", 0, fmt.Errorf("preparing the day: %w", err)
	}
	const perMiB = 495 // four of them fill a page of 8 KiB, and the index takes its part
	for left := b.body * perMiB; left > 0; left -= 100_000 {
		if _, err := b.db.Exec(ctx, fmt.Sprintf(fillDaySQL, table), at, left, min(left, 100_000)); err != nil {
			return "", 0, fmt.Errorf("writing bodies: %w", err)
		}
	}
	if err := b.db.QueryRow(ctx, `SELECT pg_total_relation_size($1::regclass)`, table).Scan(&bytes); err != nil {
		return "", 0, fmt.Errorf("measuring the day: %w", err)
	}
	// A day that is past its horizon has been written to disk long ago.
	if _, err := b.db.Exec(ctx, `CHECKPOINT`); err != nil {
		return "", 0, fmt.Errorf("writing a checkpoint: %w", err)
	}
	return table, bytes, b.evictDay(ctx, table)
}

const dayFiles = `
SELECT current_setting('data_directory') || '/' || pg_relation_filepath(r.id)
FROM pg_class c, unnest(ARRAY[c.oid, nullif(c.reltoastrelid, 0)]) AS r (id)
WHERE c.oid = $1::regclass AND r.id IS NOT NULL`

// evictDay removes the files of the day from the machine's page cache. In operation the cache would no longer hold
// files so old. If it held them, removing the files would keep a processor busy with their pages.
func (b *pruneBench) evictDay(ctx context.Context, table string) error {
	rows, err := b.db.Query(ctx, dayFiles, table)
	if err != nil {
		return fmt.Errorf("finding the day's files: %w", err)
	}
	paths, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("finding the day's files: %w", err)
	}
	for _, path := range paths {
		segments, err := filepath.Glob(path + ".*") // .1, .2, ... of a GiB each
		if err != nil {
			return fmt.Errorf("finding the day's files: %w", err)
		}
		for _, segment := range append(segments, path) {
			if err := lab.EvictFromCache(segment); err != nil {
				return err
			}
		}
	}
	return nil
}
