package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Freshness says how old the data is that lists show.
type Freshness struct {
	// Standby says that lists are read from a standby. Otherwise they show what the primary has, and AsOf is zero.
	Standby bool

	// AsOf is a time, by this machine's clock, up to which the standby certainly shows everything. It is zero while that is unknown.
	AsOf time.Time

	// Err says why the database of the lists did not answer. AsOf is then from before.
	Err error
}

// Age returns how old the data is at most; 0 at the primary.
func (f Freshness) Age(now time.Time) time.Duration {
	if !f.Standby || f.AsOf.IsZero() {
		return 0
	}
	return max(now.Sub(f.AsOf), 0)
}

// mostPlaces is how many places in the primary's log DataAge remembers. If there are more, it forgets every second one, so that the age of
// a standby that is hours late is known a little less exactly.
const mostPlaces = 1000

// DataAge measures how old the data of a pool for lists is. A standby's own statement, the time of the last transaction that it has
// replayed, makes the standby of an idle primary look old, and one that was cut off from its primary look current. DataAge therefore
// remembers when the primary's log had reached which place, and compares these with the place up to which the standby has replayed. It is
// safe for concurrent use.
type DataAge struct {
	primary, lists *pgxpool.Pool
	now            func() time.Time

	measuring sync.Mutex
	places    []place // the oldest first

	mu    sync.Mutex
	fresh Freshness
}

// place says that the primary's log had reached a place at a time.
type place struct {
	lsn uint64
	at  time.Time
}

// NewDataAge makes a DataAge. lists is a pool whose server may lag that of primary.
func NewDataAge(primary, lists *pgxpool.Pool, now func() time.Time) *DataAge {
	return &DataAge{primary: primary, lists: lists, now: now}
}

// Freshness returns the result of the last [DataAge.Measure].
func (a *DataAge) Freshness() Freshness {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fresh
}

// Every commit that other sessions can see is flushed, unless it does not wait for the disk. The insert position
// can be past the end of the last record, at the start of a page, and an idle standby never replays that far.
const readFlushed = `SELECT pg_current_wal_flush_lsn()::text`

// The time of the last replayed transaction is only asked for where no place is remembered that is old enough.
const readReplayed = `
SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_replay_lsn(), '0/0')::text ELSE '0/0' END,
    extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8`

// Measure asks the primary, and then the database of the lists, for their places. It returns what [DataAge.Freshness] returns from then on. While
// the primary does not answer, nothing later than before is known, so the age grows.
func (a *DataAge) Measure(ctx context.Context) Freshness {
	a.measuring.Lock()
	defer a.measuring.Unlock()
	a.remember(ctx)
	fresh, err := a.compare(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.fresh.Err = err
		return a.fresh
	}
	if fresh.AsOf.IsZero() {
		fresh.AsOf = a.fresh.AsOf
	}
	a.fresh = fresh
	return fresh
}

// remember adds the place that the primary's log has reached.
func (a *DataAge) remember(ctx context.Context) {
	at := a.now()
	var text string
	if err := a.primary.QueryRow(ctx, readFlushed).Scan(&text); err != nil {
		return
	}
	lsn, err := ParseLSN(text)
	if err != nil {
		return
	}
	if n := len(a.places); n > 0 && lsn < a.places[n-1].lsn {
		a.places = nil // after a failover, the log of the new primary may be shorter
	}
	a.places = append(a.places, place{lsn, at})
	if len(a.places) > mostPlaces {
		kept := a.places[:0]
		for i := range a.places {
			if i%2 == 0 || i == len(a.places)-1 {
				kept = append(kept, a.places[i])
			}
		}
		a.places = kept
	}
}

// compare asks the database of the lists how far it is.
func (a *DataAge) compare(ctx context.Context) (f Freshness, err error) {
	var text string
	var behind *float64
	if err := a.lists.QueryRow(ctx, readReplayed).Scan(&f.Standby, &text, &behind); err != nil {
		return f, fmt.Errorf("asking the database of the lists how old its data is: %w", err)
	}
	if !f.Standby {
		return f, nil
	}
	replayed, err := ParseLSN(text)
	if err != nil {
		return f, err
	}
	reached := 0
	for reached < len(a.places) && a.places[reached].lsn <= replayed {
		f.AsOf = a.places[reached].at
		reached++
	}
	if reached > 1 {
		a.places = a.places[reached-1:]
	}
	if f.AsOf.IsZero() && behind != nil {
		f.AsOf = a.now().Add(-time.Duration(*behind * float64(time.Second)))
	}
	return f, nil
}
