package effect

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox/reasons"
)

// SQLFailure classifies an error of the database. An error is final if it names the statement or its data
// ([FinalSQLState]), or if deadOn lists its SQLSTATE or its class. Every other failure is retried, such as a
// full disk, a switchover or a session that was ended. Cause is the condition's name. Excerpt is the
// server's message without the parts that quote rows and values.
func SQLFailure(err error, deadOn ...string) Result {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		// The server did not answer, so the transaction is gone with everything that was done in it.
		if errors.Is(err, context.DeadlineExceeded) {
			return Result{Outcome: Retry, Reason: reasons.SQLTimeout, Cause: "the database did not answer in time"}
		}
		return Result{Outcome: Retry, Reason: reasons.Unavailable, Cause: SafeError(err)}
	}
	r := Result{Outcome: Retry, Code: pgErr.Code, Cause: condition(pgErr.Code), Excerpt: serverSaid(pgErr)}
	// An error that ended the session says nothing about the statement.
	ended := pgErr.SeverityUnlocalized == "FATAL" || pgErr.SeverityUnlocalized == "PANIC"
	switch {
	case pgErr.Code == "0A000" && pgErr.Routine == "RevalidateCachedQuery": // "cached plan must not change result type"
		r.Reason, r.NoAttempt = reasons.Unavailable, true
	case !ended && (FinalSQLState(pgErr.Code) && !outdated(pgErr) || listed(pgErr.Code, deadOn)):
		r.Outcome, r.Reason = Dead, reasons.SQL
	case pgErr.Code == "40001":
		r.Reason = reasons.Serialization
	case pgErr.Code == "40P01":
		r.Reason = reasons.Deadlock
	case pgErr.Code == "55P03":
		r.Reason = reasons.LockTimeout
	case pgErr.Code == "57014":
		r.Reason = reasons.SQLTimeout
	case ended || listed(pgErr.Code, unavailable):
		r.Reason = reasons.Unavailable
	default:
		r.Reason = reasons.SQL
	}
	return r
}

// FinalSQLState reports whether an error with this SQLSTATE names the statement or its data, so that the
// same attempt would fail again: a value (22), a constraint (23), the statement itself or the right to run
// it (42), or a function that raises an exception (P0001).
func FinalSQLState(code string) bool { return listed(code, final) }

var (
	final = []string{"22", "23", "42", "P0001"}

	// unavailable are the classes that name the connection, the session or the server.
	unavailable = []string{"08", "25", "53", "57", "58"}
)

// listed reports whether states has the SQLSTATE or its class.
func listed(code string, states []string) bool {
	return slices.ContainsFunc(states, func(state string) bool { return code == state || len(code) == 5 && code[:2] == state })
}

// outdated reports whether an error of class 42 comes from something that the session remembers and not from
// the statement: a prepared statement of the same name, or the OID of an object that was created again. The
// next attempt gets a session that remembers nothing.
func outdated(err *pgconn.PgError) bool {
	return err.Code == "42P05" || strings.Contains(err.Message, "with OID")
}

// Ambiguous reports whether an error in reply to COMMIT leaves open whether the transaction was committed.
// Only an error of severity ERROR is a rollback.
func Ambiguous(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || pgErr.SeverityUnlocalized != "ERROR"
}
