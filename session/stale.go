package session

import (
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Stale reports whether the server says that what a connection has prepared is worth nothing any
// more: a table has other columns, or was made anew and with it its types, or the statement is
// gone. A new connection prepares it again.
func Stale(err *pgconn.PgError) bool {
	switch err.Code {
	case "26000", // no such prepared statement
		"42P05": // there is one of that name already, which is somebody else's
		return true
	case "0A000": // cached plan must not change result type
		return err.Routine == "RevalidateCachedQuery"
	case "XX000", "42P01", "42704":
		// "cache lookup failed for type 4711": what is named by its number was looked up before.
		// PostgreSQL translates the texts of internal errors into no language.
		return strings.Contains(err.Message, "cache lookup failed") || strings.Contains(err.Message, "with OID")
	}
	return false
}

// renewStale closes a connection of cfg whose prepared statements are stale, and calls renew, which
// has the other connections closed as well: they have prepared the same, and would fail one by one.
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
