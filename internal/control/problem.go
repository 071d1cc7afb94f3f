package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/session"
)

// Code tells a program why an operation failed. Callers compare it: never change one.
type Code string

// The codes. [Codes] has the status of each and what to do next.
const (
	CodeUnauthorized Code = "unauthorized"
	CodeForbidden    Code = "forbidden"
	CodeNotFound     Code = "not_found"
	CodeInvalid      Code = "invalid_request"
	CodeUnknownName  Code = "unknown_name"
	CodeAmbiguous    Code = "ambiguous_reference"
	CodeConflict     Code = "state_changed"
	CodeMethod       Code = "method_not_allowed"
	CodeTooLarge     Code = "too_large"
	CodeTooMany      Code = "too_many_attempts"
	CodeTimeout      Code = "timeout"
	CodeUnavailable  Code = "unavailable"
	CodeKeyMissing   Code = "sealing_key_missing"
	CodeInternal     Code = "internal"
)

// CodeMeaning is a row of the table of codes.
type CodeMeaning struct {
	Code Code

	// Status is the HTTP status of the answer.
	Status int

	// Title describes the error in a few words. It is the same for every answer with the code.
	Title string

	// Retriable means that the same request may succeed if it is repeated, and does no harm.
	Retriable bool

	// Next is what the caller should do next.
	Next string
}

var codes = [...]CodeMeaning{
	{Code: CodeUnauthorized, Status: 401, Title: "the token is missing or not accepted", Next: "Send Authorization: Bearer with a valid token; `oncegate tokens create` makes one."},
	{Code: CodeForbidden, Status: 403, Title: "the token may not do this", Next: "Use a token with the scope that the detail names."},
	{Code: CodeNotFound, Status: 404, Title: "there is no such thing", Next: "Check the id. What belongs to another tenant is not found either."},
	{Code: CodeInvalid, Status: 400, Title: "the request is not valid", Next: "Correct what the detail names. Nothing was changed."},
	{Code: CodeUnknownName, Status: 404, Title: "the filter names something that does not exist", Next: "Correct the name. The detail lists those that exist."},
	{Code: CodeAmbiguous, Status: 409, Title: "the reference fits several things", Next: "Use one of the ids that the detail lists."},
	{Code: CodeConflict, Status: 409, Title: "the state has changed since", Next: "Read it again and decide again. Nothing was changed."},
	{Code: CodePrecondition, Status: 412, Title: "it is not as If-Match says", Next: "Read it again and decide again. Nothing was changed."},
	{Code: CodeDigest, Status: 409, Title: "the digest is not the plan's", Next: "Read the plan again and decide again. Nothing was changed."},
	{Code: CodeBound, Status: 409, Title: "more match than the request allows", Next: "Narrow the filter or raise max. Nothing was changed."},
	{Code: CodeLocked, Status: 409, Title: "somebody else has it locked", Retriable: true, Next: "Repeat the request. It leaves out everything that is already done."},
	{Code: CodeCalledAgain, Status: 409, Title: "a later call repeats the effect's operation", Next: "Look at the later call, then say called_again, or done."},
	{Code: CodeRouteGone, Status: 409, Title: "the route is gone from the configuration", Next: "Configure the route again and start a server with it, or decide otherwise. Nothing was changed."},
	{Code: CodeRouteKnown, Status: 409, Title: "the servers carry out the route's effects", Next: "Only what waits for a route that is gone can be moved or discarded. Nothing was changed."},
	{Code: CodeKeyReused, Status: 422, Title: "the Idempotency-Key belongs to another request", Next: "Send each request under its own key. Nothing was changed."},
	{Code: CodeKeyInFlight, Status: 409, Title: "the request with this Idempotency-Key is under way", Retriable: true, Next: "Ask again in some seconds, with the same key."},
	{Code: CodeOutcomeUnknown, Status: 409, Title: "the outcome of the request with this Idempotency-Key is unknown", Next: "Check the audit, which records every decision that happened. If it did not happen, send it again under a new key."},
	{Code: CodeAnswerNotKept, Status: 409, Title: "the request with this Idempotency-Key happened, and its answer held a secret", Next: "The secret was given once and is kept nowhere. Revoke what was made, and make another under a new key."},
	{Code: CodeNotReloaded, Status: 409, Title: "the new configuration cannot be applied", Next: "Correct what the detail names and reload again. The server runs the configuration that it had."},
	{Code: CodeReloading, Status: 409, Title: "the server still ends the reload before", Retriable: true, Next: "Ask again in some seconds. Nothing was changed."},
	{Code: CodeMethod, Status: 405, Title: "the path does not take this method", Next: "Use a method of the Allow header."},
	{Code: CodeTooLarge, Status: 413, Title: "the request is too large", Next: "Send less at once. Nothing was changed."},
	{Code: CodeTooMany, Status: 429, Title: "too many attempts to log in failed", Retriable: true, Next: "Try again in some seconds."},
	{Code: CodeTimeout, Status: 504, Title: "the answer took too long", Retriable: true, Next: "Narrow the request, or ask again."},
	{Code: CodeUnavailable, Status: 503, Title: "the database cannot be asked now", Retriable: true, Next: "Ask again in some seconds."},
	{Code: CodeKeyMissing, Status: 503, Title: "the server lacks the key under which it is sealed", Next: "Give the server the key that the detail names, and start it again."},
	{Code: CodeInternal, Status: 500, Title: "something went wrong that is not your fault", Next: "Look for the request id in the log of the server."},
}

// Codes returns the table of codes.
func Codes() []CodeMeaning { return append([]CodeMeaning(nil), codes[:]...) }

// Meaning returns the row of a code, or the row of [CodeInternal] if the code is unknown.
func (c Code) Meaning() CodeMeaning {
	for _, row := range codes {
		if row.Code == c {
			return row
		}
	}
	return codes[len(codes)-1]
}

// Problem means that an operation failed for a reason that its caller can act on.
type Problem struct {
	Code Code

	// Detail is one line that says what is wrong with this request and what to do. It contains keys and ids, never
	// content.
	Detail string
}

// Error returns the detail, or the title of the code.
func (p *Problem) Error() string { return or(p.Detail, p.Code.Meaning().Title) }

// invalid returns a Problem for a request that cannot be carried out.
func invalid(format string, args ...any) error {
	return &Problem{Code: CodeInvalid, Detail: fmt.Sprintf(format, args...)}
}

// ProblemOf converts any error that an operation returns into a Problem. An error that only the log may show becomes
// [CodeInternal] without a detail.
func ProblemOf(err error) *Problem {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem
	}
	if problem := actProblem(err); problem != nil {
		return problem
	}
	switch {
	case errors.Is(err, inbox.ErrNotFound), errors.Is(err, read.ErrNoList):
		return &Problem{Code: CodeNotFound, Detail: err.Error()}
	case errors.Is(err, read.ErrAmbiguousReference):
		return &Problem{Code: CodeAmbiguous, Detail: err.Error()}
	case errors.Is(err, read.ErrReference), errors.Is(err, inbox.ErrID), errors.Is(err, read.ErrCursor), errors.Is(err, read.ErrKeyReference):
		return &Problem{Code: CodeInvalid, Detail: err.Error()}
	case errors.Is(err, seal.ErrLost):
		return &Problem{Code: CodeKeyMissing, Detail: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &Problem{Code: CodeTimeout}
	}
	return problemOfDatabase(err)
}

// problemOfDatabase distinguishes a database that is not available, or takes too long, from an internal error.
func problemOfDatabase(err error) *Problem {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || errors.Is(err, inbox.ErrStandby) || errors.Is(err, inbox.ErrReadOnly) || errors.Is(err, session.ErrShared) {
		return &Problem{Code: CodeUnavailable}
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return &Problem{Code: CodeInternal}
	}
	switch pg.Code {
	case codeCanceled:
		return &Problem{Code: CodeTimeout}
	case "57P01", "57P02", "57P03", "53300", "08006", "08001", "08004", "25006":
		return &Problem{Code: CodeUnavailable}
	case "42501": // insufficient_privilege, whose message names the table and never a row
		return &Problem{Code: CodeUnavailable, Detail: "the database says: " + pg.Message + "; grant the role what it lacks (lists use the role of database.list_url, if that is set)"}
	case inbox.CodeMoved, inbox.CodeMovedEffect:
		return &Problem{Code: CodeConflict, Detail: pg.Message}
	case "42P01", "42703": // no such table, or column
		return &Problem{Code: CodeUnavailable, Detail: "the tables are missing or another version's; `oncegate migrate status` says which"}
	}
	return &Problem{Code: CodeInternal}
}

// isBroken reports whether a connection to the database broke, so that the outcome of what changes something is unknown.
func isBroken(err error) bool {
	if _, before := errors.AsType[*pgconn.ConnectError](err); before {
		return false // there was no connection, as ProblemOf says
	}
	_, network := errors.AsType[*net.OpError](err)
	return network || errors.Is(err, io.ErrUnexpectedEOF)
}

// codeCanceled is the SQLSTATE of a statement that its statement_timeout ended.
const codeCanceled = "57014"
