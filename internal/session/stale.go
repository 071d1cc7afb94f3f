package session

import (
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Stale reports whether an error of the server means that a connection's prepared statements are
// no longer valid: the columns of a table have changed, a table and its types were created again,
// or the statement is gone. A new connection prepares its statements again.
func Stale(err *pgconn.PgError) bool {
	switch err.Code {
	case "26000", // no such prepared statement
		"42P05": // another client has prepared a statement of that name
		return true
	case "0A000": // cached plan must not change result type
		return err.Routine == "RevalidateCachedQuery"
	case "XX000", "42P01", "42704":
		// "cache lookup failed for type 4711": the statement refers to an object by a number that is gone.
		// PostgreSQL does not translate the texts of internal errors.
		return strings.Contains(err.Message, "cache lookup failed") || strings.Contains(err.Message, "with OID")
	}
	return false
}

// renewStale makes connections of cfg close when their prepared statements are stale, and then calls
// renew. renew closes the other connections, which have prepared the same statements and would fail too.
func renewStale(cfg *pgx.ConnConfig, renew func()) {
	before := cfg.OnPgError
	cfg.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if Stale(err) {
			renew()
			return false
		}
		return before == nil || before(conn, err)
	}
}
