package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// usageError is a mistake in the command line or the configuration.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// unknownOutcomeError is the error of an operation with an unknown outcome.
type unknownOutcomeError struct{ text string }

func (e *unknownOutcomeError) Error() string { return e.text }

// tryLaterError is the error of a failure that may be temporary.
type tryLaterError struct{ text string }

func (e *tryLaterError) Error() string { return e.text }

func tryLaterf(format string, args ...any) error {
	return &tryLaterError{text: fmt.Sprintf(format, args...)}
}

func exitCode(err error) int {
	var usage *usageError
	var problems config.Problems
	var later *tryLaterError
	var locked *app.LockError
	var setting *session.SettingError
	var unknown *unknownOutcomeError
	if code, ok := problemExit(err); ok {
		return code
	}
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &unknown):
		return exitUnknown
	case errors.As(err, &usage), errors.As(err, &problems), errors.As(err, &setting), errors.Is(err, session.ErrShared),
		errors.Is(err, registry.ErrNames), errors.Is(err, registry.ErrRecipe), errors.Is(err, read.ErrReference), errors.Is(err, read.ErrCursor), errors.Is(err, read.ErrAmbiguousReference), errors.Is(err, read.ErrStreamReference), errors.Is(err, inbox.ErrUnexplained), errors.Is(err, session.ErrSchemaName), errors.Is(err, migrations.ErrSchema), noTables(err):
		return exitUsage
	case errors.As(err, &later), errors.As(err, &locked), errors.Is(err, inbox.ErrStandby), lockedOut(err), unreachable(err):
		return exitTryLater
	}
	return exitFailed
}

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

// unreachable reports whether the error means that no connection to the database was possible, or
// that the database is starting up, shutting down or full.
func unreachable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "57P01", "57P02", "57P03", "53300", "08006", "08001", "08004":
			return true
		}
		return false
	}
	var connect *pgconn.ConnectError
	var network *net.OpError
	return errors.As(err, &connect) || errors.As(err, &network) && network.Op != "listen" ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, context.DeadlineExceeded)
}

// report writes err to w in one line, or in one line per problem of the configuration.
func report(w io.Writer, err error) {
	if errors.Is(err, errSilent) {
		return
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, p := range problems {
			fmt.Fprintln(w, "oncegate: "+clean(p.String()))
		}
		return
	}
	if errors.Is(err, registry.ErrNames) || errors.Is(err, registry.ErrRecipe) { // one line each
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(w, "oncegate: "+clean(strings.TrimSpace(line)))
		}
		return
	}
	fmt.Fprintln(w, "oncegate: "+clean(explain(err)))
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
	case errors.Is(err, inbox.ErrReadOnly), errors.As(err, &pg) && pg.Code == "25006":
		return "the database takes no writes: it is a standby or read-only; point DATABASE_URL at the primary"
	case errors.As(err, &connect):
		if list := (*listPoolError)(nil); errors.As(err, &list) {
			return refusedConnection(connect, "database.list_url")
		}
		return refusedConnection(connect, "DATABASE_URL")
	case noTables(err):
		return "Oncegate's tables are missing in this schema, or another version's (`oncegate migrate status` says which): run `oncegate migrate up`"
	case errors.As(err, &pg) && pg.Code == "42501": // insufficient_privilege
		return "the database says: " + oneLine(pg.Message) + "; grant the role what it lacks, or use the one that made the tables (what only reads uses database.list_url, if that is set)"
	case unreachable(err):
		return oneLine(err.Error()) + "; try again later"
	}
	return oneLine(err.Error())
}
