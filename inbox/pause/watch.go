package pause

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// Every is how often a process reads the table.
	Every = time.Second

	// lookTimeout bounds one reading.
	lookTimeout = 3 * time.Second
)

// Watch remembers what was paused when the process last read the table. It is safe for concurrent use. A nil Watch knows of
// no pause.
type Watch struct {
	pool *pgxpool.Pool
	now  atomic.Pointer[state]
}

// state is never changed after it was stored.
type state struct {
	sources, routes map[int32]bool
	targets         map[string]bool
	all             Pauses
}

// NewWatch makes a Watch that knows of no pause yet. Call [Watch.Look] before the process takes any work, and then every [Every].
func NewWatch(pool *pgxpool.Pool) *Watch {
	w := &Watch{pool: pool}
	w.now.Store(&state{})
	return w
}

// Look reads the table. It returns the pauses that are new and those that have ended since the last reading. If it fails, the
// Watch keeps what it knows.
func (w *Watch) Look(ctx context.Context) (begun, ended Pauses, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	rows, err := w.pool.Query(ctx, readPauses)
	if err != nil {
		return nil, nil, fmt.Errorf("reading what is paused: %w", err)
	}
	all, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, nil, fmt.Errorf("reading what is paused: %w", err)
	}
	next := &state{sources: map[int32]bool{}, routes: map[int32]bool{}, targets: map[string]bool{}}
	for i := range all {
		switch p := &all[i]; p.Kind {
		case Source:
			next.sources[*p.source] = true
		case Route:
			next.routes[*p.route] = true
		case Target:
			next.targets[*p.target] = true
		}
		next.all = append(next.all, all[i].Pause)
	}
	before := w.now.Swap(next)
	return missingFrom(before.all, next.all), missingFrom(next.all, before.all), nil
}

// missingFrom returns the pauses of other that are not in p.
func missingFrom(p, other Pauses) (out Pauses) {
	for i := range other {
		if !slices.ContainsFunc(p, func(one Pause) bool { return one.Thing == other[i].Thing && one.Since.Equal(other[i].Since) }) {
			out = append(out, other[i])
		}
	}
	return out
}

// Source reports whether a source is paused.
func (w *Watch) Source(id int32) bool {
	return w != nil && w.now.Load().sources[id]
}

// Oldest is when the oldest pause began. It is the zero time if nothing is paused.
func (w *Watch) Oldest() (oldest time.Time) {
	for _, p := range w.now.Load().all {
		if oldest.IsZero() || p.Since.Before(oldest) {
			oldest = p.Since
		}
	}
	return oldest
}

// Route reports whether a route, or the target to which it leads, is paused.
func (w *Watch) Route(id int32, target string) bool {
	if w == nil {
		return false
	}
	now := w.now.Load()
	return now.routes[id] || now.targets[target]
}
