package advisory

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/session"
)

// Every role that may connect to the database can take these locks. Who has one is named in the
// log, or in the error, of the task that the lock keeps waiting.

const holders = `
SELECT l.pid
FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock'
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND `

// The locks of one key and of two. The second of two is an expression.
const (
	holdersOfOne = holders + `l.objsubid = 1 AND (l.classid::bigint << 32) | l.objid::bigint = $1`
	holdersOfTwo = holders + `l.objsubid = 2 AND l.classid::bigint = $1::int::bigint AND l.objid::bigint = (%s)::bigint & 4294967295`
)

// Holders returns the sessions, except the caller's, that have the lock of one key.
func Holders(ctx context.Context, db session.Querier, key int64) ([]session.Backend, error) {
	return session.ReadBackends(ctx, db, holdersOfOne, key)
}

// Holder returns the session that has the lock of two keys. It returns nil if only the caller has the lock, or if the
// server does not say. second is an expression of SQL, whose arguments begin with $2.
func Holder(ctx context.Context, db session.Querier, first int32, second string, args ...any) *session.Backend {
	backends, err := session.ReadBackends(ctx, db, fmt.Sprintf(holdersOfTwo, second), append([]any{first}, args...)...)
	if err != nil || len(backends) == 0 {
		return nil
	}
	return &backends[0]
}
