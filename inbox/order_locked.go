package inbox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/session"
)

// LockedStream is a stream whose row another session has kept locked for so long that its effects
// cannot proceed, with the backend that has the lock.
type LockedStream struct {
	Source, Route string
	// ID is the stream's id; 0 if it could not be read. Its key is personal data and goes
	// into no log.
	ID int64
	// Since is when it was first found locked by this process.
	Since time.Time

	// Backend is the server process that has the lock. It is nil if the server did not name one,
	// because the lock has just been released, is shared by several transactions, or belongs to a
	// prepared transaction.
	Backend *session.Backend
}

// How long a stream must be locked before it is reported, and how often it is reported again.
const (
	lockedWorthTelling = time.Second
	lockedToldEvery    = time.Minute
)

// lockedStreams are the streams that this process found locked when it last asked.
type lockedStreams struct {
	tell func(context.Context, LockedStream)
	now  func() time.Time

	count atomic.Int64 // the number of streams, so that no mutex is locked while it is 0

	mu sync.Mutex
	by map[string]*lockedSighting
}

type lockedSighting struct{ since, seen, told time.Time }

// lockedForgotten is how long a stream is remembered after the last request for it.
const lockedForgotten = 5 * time.Minute

// recordLocked records that a stream was found locked. It returns since when, for how long, and
// whether to report it.
func (l *lockedStreams) recordLocked(name string) (since time.Time, age time.Duration, tell bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.by[name]
	if s == nil || now.Sub(s.seen) > lockedForgotten {
		for other, o := range l.by {
			if now.Sub(o.seen) > lockedForgotten {
				delete(l.by, other)
			}
		}
		s = &lockedSighting{since: now}
		if l.by == nil {
			l.by = map[string]*lockedSighting{}
		}
		l.by[name] = s
		l.count.Store(int64(len(l.by)))
	}
	s.seen = now
	if age = now.Sub(s.since); age >= lockedWorthTelling && now.Sub(s.told) >= lockedToldEvery {
		s.told, tell = now, true
	}
	return s.since, age, tell
}

// recordFree records that streams were obtained.
func (l *lockedStreams) recordFree(streams []*orderStream) {
	if l.count.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range streams {
		if s.id != 0 {
			delete(l.by, streamName(s.routeID, s.hash))
		}
	}
	l.count.Store(int64(len(l.by)))
}

// avoidFor is how long an effect stays away from a stream that has been locked for a time.
func avoidFor(age time.Duration) time.Duration {
	const least, most = 250 * time.Millisecond, 5 * time.Second
	return min(max(age/2, least), most)
}

// The session that locked a row: its xmax names the transaction, and every transaction with an id
// has a lock on that id. There is at most one row for a transaction. A row lock that several
// transactions share has a separate id, which belongs to no session. An effect may wait for its own
// row, its event's, its key's, its stream's, or the row of another effect of the stream.
const lockersOfEffect = `
WITH named AS MATERIALIZED (
    SELECT $1::int AS route_id, $2::bytea AS key_hash
    UNION ALL
    SELECT e.route_id, e.sequence_key_hash FROM effect e WHERE e.id = $3)
SELECT l.pid
FROM pg_locks l
WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.transactionid IN (
    SELECT s.xmax FROM named n JOIN stream s ON s.route_id = n.route_id AND s.key_hash = n.key_hash
    UNION ALL
    (SELECT e.xmax FROM named n JOIN effect e ON e.route_id = n.route_id AND e.sequence_key_hash = n.key_hash
    WHERE e.state IN ('pending', 'claimed', 'retry', 'held')
    LIMIT 1000)
    UNION ALL
    SELECT e.xmax FROM effect e WHERE e.id = $3
    UNION ALL
    SELECT v.xmax FROM inbox_event v WHERE v.id = (SELECT e.event_id FROM effect e WHERE e.id = $3)
    UNION ALL
    SELECT k.xmax FROM effect_key k WHERE k.effect_id = $3)`

// lockHolder returns the session that has the lock for which an effect or a stream waits; nil if the
// server names none.
func lockHolder(ctx context.Context, db session.Querier, routeID int32, hash []byte, effect ID) *session.Backend {
	backends, err := session.ReadBackends(ctx, db, lockersOfEffect, routeID, hash, effect)
	if err != nil || len(backends) == 0 {
		return nil
	}
	return &backends[0]
}

// LockHolder returns the session that has the lock for which an overdue effect was left out of a
// sweep; nil if the server names none.
func (e *Effects) LockHolder(ctx context.Context, effect ID) *session.Backend {
	return lockHolder(ctx, e.pool, 0, nil, effect)
}

const readStreamName = `
SELECT src.name, r.name, s.id
FROM stream s
JOIN route r ON r.id = s.route_id
JOIN source src ON src.id = r.source_id
WHERE s.route_id = $1 AND s.key_hash = $2`

// report records that a stream was found locked and, at most once a minute, reports the session that
// has the lock. It returns how long the stream has been locked.
func (l *lockedStreams) report(ctx context.Context, db interface {
	session.Querier
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, routeID int32, hash []byte,
) time.Duration {
	since, age, tell := l.recordLocked(streamName(routeID, hash))
	if !tell || l.tell == nil {
		return age
	}
	timed, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	told := LockedStream{Since: since}
	if err := db.QueryRow(timed, readStreamName, routeID, hash).Scan(&told.Source, &told.Route, &told.ID); err != nil {
		told.Route, told.ID = fmt.Sprint(routeID), 0
	}
	told.Backend = lockHolder(timed, db, routeID, hash, ID{})
	l.tell(ctx, told)
	return age
}
