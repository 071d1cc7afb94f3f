package advisory

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/internal/session"
)

// holders selects the sessions that hold a lock. Every role that may connect to the database can
// take these locks, so a task that waits for one names the session in its log or error.

const holders = `
SELECT l.pid
FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock'
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND `

// The queries for a one-part and a two-part key. The second part of a two-part key is an SQL
// expression.
const (
	holdersOfOne = holders + `l.objsubid = 1 AND (l.classid::bigint << 32) | l.objid::bigint = $1`
	holdersOfTwo = holders + `l.objsubid = 2 AND l.classid::bigint = $1::int::bigint AND l.objid::bigint = (%s)::bigint & 4294967295`
)

// Holders returns the sessions, except the caller's, that hold the lock with a one-part key.
func Holders(ctx context.Context, db session.Querier, key int64) ([]session.Backend, error) {
	return session.ReadBackends(ctx, db, holdersOfOne, key)
}

// Holder returns a session, other than the caller's, that has the lock with a two-part key. It
// returns nil if there is none, or if the query fails. second is an SQL expression, whose arguments
// begin with $2.
func Holder(ctx context.Context, db session.Querier, first int32, second string, args ...any) *session.Backend {
	backends, err := session.ReadBackends(ctx, db, fmt.Sprintf(holdersOfTwo, second), append([]any{first}, args...)...)
	if err != nil || len(backends) == 0 {
		return nil
	}
	return &backends[0]
}
