package row

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsLocked reports whether the server refused a statement because it did not obtain a
// lock in time, or at once.
func IsLocked(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "55P03"
}
