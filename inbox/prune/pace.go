package prune

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// Sample is the state of the gate's table after a pass.
type Sample struct {
	At time.Time

	// Incoming and Drained are all rows that were ever written to and removed from
	// it, as PostgreSQL counts them: of all processes, and without a scan.
	Incoming, Drained int64

	// Backlog is how many rows are due and were not reached, at most [MostBacklog]. It includes rows that became due after the
	// last pass, so it grows if there are no more passes. Oldest is how long the oldest of them has been due.
	Backlog int64
	Oldest  time.Duration
}

// MostBacklog is where counting the backlog ends.
const MostBacklog = 100_000

// The counters of the statistics, which lag by a second or so and start again
// after a crash of the server.
const readTraffic = `
SELECT coalesce(sum(n_tup_ins), 0)::bigint, coalesce(sum(n_tup_del), 0)::bigint
FROM pg_stat_all_tables
WHERE relid = to_regclass('inbox_event')`

const (
	readEventWalks = `SELECT name, position FROM prune_walk WHERE name LIKE 'inbox\_event/%'`

	countBacklog = `
SELECT count(*), min(b.id::text)::uuid
FROM (SELECT id FROM inbox_event WHERE id > $1::uuid AND id < $2::uuid AND source_id = ANY ($3::int[]) ORDER BY id LIMIT $4) b`
)

// Sample reads how pruning keeps up. All of it is bounded: the backlog is counted from where the walks are. A walk that has
// never begun is at the first row.
func (p *Pruner) Sample(ctx context.Context) (Sample, error) {
	var out Sample
	if err := p.cfg.Pool.QueryRow(ctx, readTraffic).Scan(&out.Incoming, &out.Drained); err != nil {
		return out, fmt.Errorf("reading the gate's traffic: %w", err)
	}
	keep, err := readRetention(ctx, p.cfg.Pool)
	if err != nil {
		return out, err
	}
	out.At = keep.now
	rows, err := p.cfg.Pool.Query(ctx, readEventWalks)
	if err != nil {
		return out, fmt.Errorf("reading where the walks are: %w", err)
	}
	positions := map[string]string{}
	var name, position string
	_, err = pgx.ForEachRow(rows, []any{&name, &position}, func() error { positions[name] = position; return nil })
	if err != nil {
		return out, fmt.Errorf("reading where the walks are: %w", err)
	}
	s := &pass{Pruner: p, retention: keep}
	for _, g := range s.bySource(tombstones) {
		after := inbox.ID{}
		if position, begun := positions[eventWalk(g.horizon)]; begun {
			if after, err = inbox.ParseID(position); err != nil {
				return out, fmt.Errorf("reading where the walks are: %w", err)
			}
		}
		var n int64
		var oldest *inbox.ID
		if err := p.cfg.Pool.QueryRow(ctx, countBacklog, floor(after), keep.cutoff(g.horizon), g.ids, MostBacklog-out.Backlog).Scan(&n, &oldest); err != nil {
			return out, fmt.Errorf("counting the backlog: %w", err)
		}
		out.Backlog += n
		if oldest != nil {
			out.Oldest = max(out.Oldest, keep.now.Add(-g.horizon).Sub(oldest.Time()))
		}
	}
	return out, nil
}

// Pace is how pruning keeps up with what comes in.
type Pace struct {
	Sample

	// IncomingPerSecond and DrainedPerSecond are the rates over the observed time.
	IncomingPerSecond, DrainedPerSecond float64

	// Headroom is how many times faster rows could be removed than they come in, by
	// what passes removed in the time they took; 0 is not known yet.
	Headroom float64

	// Behind means that for an hour fewer rows were removed than came in, and some due
	// rows remain. An installation that is younger than its horizons is not behind.
	Behind bool
}

// Watch judges the pace from samples. It does no I/O and gets the time with each
// sample. It is not for concurrent use.
type Watch struct {
	samples []Sample
	removed int64
	busy    time.Duration
}

// paceWindow is the time over which the pace is judged.
const paceWindow = time.Hour

// Add takes the sample after a pass, and what the pass did.
func (w *Watch) Add(sample Sample, report Report) Pace {
	if n := len(w.samples); n > 0 && (sample.Incoming < w.samples[n-1].Incoming || sample.Drained < w.samples[n-1].Drained) {
		w.samples = nil // the server's counters were reset
	}
	w.samples = append(w.samples, sample)
	// The newest sample before the window stays, for comparison.
	first := 0
	for first+1 < len(w.samples) && sample.At.Sub(w.samples[first+1].At) >= paceWindow {
		first++
	}
	w.samples = slices.Delete(w.samples, 0, first)
	if rows := report.Rows["inbox_event"]; rows > 0 {
		// Each pass halves the earlier figures, so that the result follows changes.
		w.removed, w.busy = w.removed/2+rows, w.busy/2+report.Elapsed
	}
	pace := Pace{Sample: sample}
	oldest := w.samples[0]
	span := sample.At.Sub(oldest.At)
	if span <= 0 {
		return pace
	}
	pace.IncomingPerSecond = float64(sample.Incoming-oldest.Incoming) / span.Seconds()
	pace.DrainedPerSecond = float64(sample.Drained-oldest.Drained) / span.Seconds()
	if w.busy > 0 && pace.IncomingPerSecond > 0 {
		pace.Headroom = float64(w.removed) / w.busy.Seconds() / pace.IncomingPerSecond
	}
	due := !slices.ContainsFunc(w.samples, func(s Sample) bool { return s.Backlog == 0 })
	pace.Behind = due && span >= paceWindow && pace.DrainedPerSecond < pace.IncomingPerSecond
	return pace
}

// tombstones is how long a source's tombstones live, by its horizons.
func tombstones(h Horizons) time.Duration { return h.Tombstone + tombstoneSlack }

// eventWalk is the name of the walk over the events of one horizon. Stored: never
// change.
func eventWalk(horizon time.Duration) string {
	return strings.Join([]string{"inbox_event", horizon.String()}, "/")
}
