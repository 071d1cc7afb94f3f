package effect

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox/reasons"
)

// SQLFailure classifies an error of the database: what another moment may mend
// is retried, anything else is dead. The condition's name is the cause; the server's
// message is an excerpt like a target's reply, without what quotes rows and values.
func SQLFailure(err error) Result {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		// No answer: the transaction is gone, and with it all that was done.
		if errors.Is(err, context.DeadlineExceeded) {
			return Result{Outcome: Retry, Reason: reasons.SQLTimeout, Cause: "the database did not answer in time"}
		}
		return Result{Outcome: Retry, Reason: reasons.Unavailable, Cause: SafeError(err)}
	}
	r := Result{Outcome: Retry, Code: pgErr.Code, Cause: condition(pgErr.Code), Excerpt: serverSaid(pgErr)}
	switch {
	case pgErr.Code == "0A000" && pgErr.Routine == "RevalidateCachedQuery": // "cached plan must not change result type"
		r.Reason, r.NoAttempt = reasons.Unavailable, true
	case pgErr.Code == "40001":
		r.Reason = reasons.Serialization
	case pgErr.Code == "40P01":
		r.Reason = reasons.Deadlock
	case pgErr.Code == "55P03":
		r.Reason = reasons.LockTimeout
	case pgErr.Code == "57014":
		r.Reason = reasons.SQLTimeout
	case len(pgErr.Code) == 5 && (pgErr.Code[:4] == "57P0" || pgErr.Code[:2] == "53" || pgErr.Code[:2] == "08"):
		r.Reason = reasons.Unavailable
	default:
		r.Outcome, r.Reason = Dead, reasons.SQL
	}
	return r
}

// Ambiguous reports whether an error in reply to COMMIT leaves open whether it
// was committed: only an ERROR is a rollback.
func Ambiguous(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || pgErr.SeverityUnlocalized != "ERROR"
}
