package effect

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
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

var (
	_ Transactional = (*SQL)(nil)
	_ Previewer     = (*SQL)(nil)
)

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

// Preview implements [Previewer]. The body is the event's: what the statement
// gets is made of it.
func (s *SQL) Preview(call *Call) (Request, *Result) {
	if _, failure := s.Arguments(call); failure != nil {
		return Request{}, failure
	}
	return Request{Body: call.Event.Body}, nil
}
