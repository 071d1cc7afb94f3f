package cli

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/session"
)

// lockedOut reports whether another session kept a lock for longer than the statement could wait.
func lockedOut(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// noTables reports whether a table or a column does not exist.
func noTables(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "42P01" || pg.Code == "42703")
}

// isBusy reports whether the database is starting up, shutting down or full.
func isBusy(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{"57P01", "57P02", "57P03", "53300", "08006", "08001", "08004"}, pg.Code)
}

// isReadOnly reports whether the database takes no writes.
func isReadOnly(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, inbox.ErrReadOnly) || ok && pg.Code == "25006"
}

// isForbidden reports whether the role lacks a privilege.
func isForbidden(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "42501"
}

// unreachable reports whether the error means that no connection to the database was possible, or
// that the database is starting up, shutting down or full.
func unreachable(err error) bool {
	if isA[*pgconn.PgError](err) {
		return isBusy(err)
	}
	var connect *pgconn.ConnectError
	var network *net.OpError
	return errors.As(err, &connect) || errors.As(err, &network) && network.Op != "listen" ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, context.DeadlineExceeded)
}

// explain turns an error of the driver into a message that says what to do.
func explain(err error) string {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	var locked *app.LockError
	var setting *session.SettingError
	switch {
	case errors.Is(err, session.ErrShared):
		return session.ErrShared.Error()
	case errors.As(err, &locked):
		return oneLine(locked.Error())
	case errors.As(err, &setting):
		return setting.Error()
	case errors.Is(err, inbox.ErrStandby):
		return inbox.ErrStandby.Error()
	case isReadOnly(err):
		return "the database takes no writes: it is a standby or read-only; point DATABASE_URL at the primary"
	case errors.As(err, &connect):
		if list := (*listPoolError)(nil); errors.As(err, &list) {
			return refusedConnection(connect, "database.list_url")
		}
		return refusedConnection(connect, "DATABASE_URL")
	case noTables(err):
		return "Oncegate's tables are missing in this schema, or another version's (`oncegate migrate status` says which): run `oncegate migrate up`"
	case errors.As(err, &pg) && isForbidden(err):
		return "the database says: " + oneLine(pg.Message) + "; grant the role what it lacks, or use the one that made the tables (what only reads uses database.list_url, if that is set)"
	case unreachable(err):
		return oneLine(err.Error()) + "; try again later"
	}
	return oneLine(err.Error())
}
