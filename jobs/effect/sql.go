package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLConfig configures a [SQL].
type SQLConfig struct {
	// Call is the function to call, schema.name or name; it takes one jsonb.
	Call string

	// Statement is what is run instead of a call: one statement, with parameters
	// written as @name.
	Statement string

	// Parameters give the values of the statement's parameters, by name; all that it
	// names, and no other.
	Parameters map[string]Parameter
}

// Parameter makes the value of a parameter: nil, bool, int64, uint64, float64,
// string, or []any and map[string]any, which are sent as JSON. Its error names an
// expression and never quotes the event.
type Parameter func(*Call) (any, error)

// SQL calls a function of the database, in the transaction that records the
// outcome: exactly once.
type SQL struct {
	statement  string
	names      []string // of the parameters, in the order of their numbers
	parameters map[string]Parameter
}

var _ Transactional = (*SQL)(nil)

var functionName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

// NewSQL makes a SQL, or says what is wrong with cfg.
func NewSQL(cfg SQLConfig) (*SQL, error) {
	if cfg.Statement != "" {
		return newStatement(cfg)
	}
	if len(cfg.Parameters) > 0 {
		return nil, errors.New("parameters need a statement; a function gets the whole event")
	}
	if !functionName.MatchString(cfg.Call) {
		return nil, fmt.Errorf("call %q: want a function's name, schema.name or name, in lower case", cfg.Call)
	}
	return &SQL{statement: "SELECT " + cfg.Call + "($1::jsonb)"}, nil
}

// Act implements [Transactional].
func (s *SQL) Act(ctx context.Context, tx pgx.Tx, call *Call) Result {
	args, failure := s.Arguments(call)
	if failure != nil {
		return *failure
	}
	if _, err := tx.Exec(ctx, s.statement, args...); err != nil {
		return SQLFailure(err)
	}
	return Result{Outcome: Done}
}

// Statement is what is run.
func (s *SQL) Statement() string { return s.statement }

// Arguments makes the statement's arguments; failure is not nil if the event has
// none.
func (s *SQL) Arguments(call *Call) (args []any, failure *Result) {
	if s.parameters == nil {
		document, err := Document(call)
		if err != nil {
			return nil, &Result{Outcome: Dead, Reason: ReasonRender}
		}
		return []any{document}, nil
	}
	args = make([]any, len(s.names))
	for i, name := range s.names {
		value, err := s.parameters[name](call)
		if err == nil {
			value, err = argument(value)
		}
		if err != nil {
			return nil, &Result{Outcome: Dead, Reason: ReasonMapping, Excerpt: Clean("parameter "+name+": "+err.Error(), MaxExcerpt)}
		}
		args[i] = value
	}
	return args, nil
}

// document is an event as SQL functions get it. Names are an interface: never
// change.
type document struct {
	Event          string          `json:"event"`
	Source         string          `json:"source"`
	Provider       string          `json:"provider"`
	ID             string          `json:"id"`
	Type           string          `json:"type"`
	OccurredAt     *time.Time      `json:"occurred_at,omitempty"`
	ReceivedAt     time.Time       `json:"received_at"`
	Route          string          `json:"route"`
	Key            string          `json:"key"`
	SequenceKey    string          `json:"sequence_key,omitempty"`
	SequenceNumber string          `json:"sequence_number,omitempty"`
	Body           json.RawMessage `json:"body,omitempty"`
	BodyBytes      []byte          `json:"body_base64,omitempty"`
}

// Document is the event as JSON: what is known about it and, as "body", its
// payload; a body that is not JSON comes as "body_base64".
func Document(call *Call) ([]byte, error) {
	e := call.Event
	d := document{
		Event: e.ID, Source: e.Source, Provider: e.Provider, ID: e.EventID, Type: e.Type, ReceivedAt: e.ReceivedAt.UTC(),
		Route: call.Route, Key: call.Key, SequenceKey: e.SequenceKey, SequenceNumber: e.SequenceNumber,
	}
	if !e.OccurredAt.IsZero() {
		at := e.OccurredAt.UTC()
		d.OccurredAt = &at
	}
	if json.Valid(e.Body) {
		d.Body = e.Body
	} else {
		d.BodyBytes = e.Body
	}
	return json.Marshal(d)
}

// SQLFailure classifies an error of the database: what another moment may mend
// is retried, anything else is dead. The condition's name is the cause; the server's
// message is an excerpt like a target's reply, without what quotes rows and values.
func SQLFailure(err error) Result {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		// No answer: the transaction is gone, and with it all that was done.
		if errors.Is(err, context.DeadlineExceeded) {
			return Result{Outcome: Retry, Reason: ReasonSQLTimeout, Cause: "the database did not answer in time"}
		}
		return Result{Outcome: Retry, Reason: ReasonUnavailable, Cause: SafeError(err)}
	}
	r := Result{Outcome: Retry, Code: pgErr.Code, Cause: condition(pgErr.Code), Excerpt: serverSaid(pgErr)}
	switch {
	case pgErr.Code == "0A000" && pgErr.Routine == "RevalidateCachedQuery": // "cached plan must not change result type"
		r.Reason, r.Unmade = ReasonUnavailable, true
	case pgErr.Code == "40001":
		r.Reason = ReasonSerialization
	case pgErr.Code == "40P01":
		r.Reason = ReasonDeadlock
	case pgErr.Code == "55P03":
		r.Reason = ReasonLockTimeout
	case pgErr.Code == "57014":
		r.Reason = ReasonSQLTimeout
	case len(pgErr.Code) == 5 && (pgErr.Code[:4] == "57P0" || pgErr.Code[:2] == "53" || pgErr.Code[:2] == "08"):
		r.Reason = ReasonUnavailable
	default:
		r.Outcome, r.Reason = Dead, ReasonSQL
	}
	return r
}

// Ambiguous reports whether an error in reply to COMMIT leaves open whether it
// was committed: only an ERROR is a rollback.
func Ambiguous(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || pgErr.SeverityUnlocalized != "ERROR"
}
