// Package sql carries out effects in the database that Oncegate is in. [New] makes a [Transactional] that calls a
// function or runs a statement exactly once, in the transaction that records its outcome.
package sql

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/pgtext"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Config configures a [Transactional].
type Config struct {
	// Call is the function to call, schema.name or name. It takes one jsonb.
	Call string

	// Statement is the statement to run instead of Call: one statement, with parameters written as @name.
	Statement string

	// Parameters computes the values of the statement's parameters, by name. It must have exactly the parameters that
	// the statement uses.
	Parameters map[string]Parameter

	// DeadOn lists the SQLSTATEs, or classes of two characters, that end an effect without another attempt, in addition
	// to those for which [effect.FinalSQLState] is true.
	DeadOn []string

	// KeepReply keeps what the function returns, or the rows of the statement, as the effect's result: as JSON, up to
	// [MaxReply].
	KeepReply bool
}

// Parameter computes the value of a parameter: nil, bool, int64, uint64, float64, string, or []any and map[string]any,
// which are sent as JSON. Its error names an expression and never quotes the event.
type Parameter func(*effect.Call) (any, error)

// Transactional calls a function or runs a statement exactly once, in the transaction that records the outcome.
type Transactional struct {
	statement  string
	names      []string // of the parameters, in the order of their numbers
	parameters map[string]Parameter
	deadOn     []string
	keepReply  bool
}

var (
	_ effect.Transactional = (*Transactional)(nil)
	_ effect.Previewer     = (*Transactional)(nil)
)

var sqlState = regexp.MustCompile(`^[0-9A-Z]{2}([0-9A-Z]{3})?$`)

var functionName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

// New makes a Transactional, or returns an error that names a fault of cfg.
func New(cfg Config) (*Transactional, error) {
	for _, state := range cfg.DeadOn {
		if !sqlState.MatchString(state) {
			return nil, fmt.Errorf("dead_on %q: want an SQLSTATE of five characters such as P0002, or a class of two such as 38", state)
		}
	}
	kind, err := newKind(cfg)
	if err == nil {
		kind.deadOn, kind.keepReply = cfg.DeadOn, cfg.KeepReply
	}
	return kind, err
}

func newKind(cfg Config) (*Transactional, error) {
	if cfg.Statement != "" {
		return newStatement(cfg)
	}
	if len(cfg.Parameters) > 0 {
		return nil, errors.New("parameters need a statement; a function gets the whole event")
	}
	if !functionName.MatchString(cfg.Call) {
		return nil, fmt.Errorf("call %q: want a function's name, schema.name or name, in lower case", cfg.Call)
	}
	return &Transactional{statement: "SELECT " + cfg.Call + "($1::jsonb)"}, nil
}

// SQL returns the statement that an attempt runs, with numbered parameters. Preparing it shows whether the database has what it names.
func (s *Transactional) SQL() string { return s.statement }

// Act implements [effect.Transactional].
func (s *Transactional) Act(ctx context.Context, tx pgx.Tx, call *effect.Call) effect.Result {
	args, failure := s.Arguments(call)
	if failure != nil {
		return *failure
	}
	if s.keepReply {
		return s.actAndKeep(ctx, tx, args)
	}
	if _, err := tx.Exec(ctx, s.statement, args...); err != nil {
		return effect.SQLFailure(err, s.deadOn...)
	}
	return effect.Result{Outcome: effect.Done}
}

func (s *Transactional) actAndKeep(ctx context.Context, tx pgx.Tx, args []any) effect.Result {
	rows, err := tx.Query(ctx, s.statement, append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)...)
	if err != nil {
		return effect.SQLFailure(err, s.deadOn...)
	}
	reply, over, err := readReply(rows, s.parameters == nil)
	if err != nil {
		return effect.SQLFailure(err, s.deadOn...)
	}
	result := effect.Result{Outcome: effect.Done, Stored: reply}
	if over {
		result.Excerpt = overReply
	}
	return result
}

// KeepsReply reports whether the effect's result is what the statement returns. Such an effect runs in a transaction
// without others, because a group sends its settlements together with its statements.
func (s *Transactional) KeepsReply() bool { return s.keepReply }

// Statement returns the statement that is run.
func (s *Transactional) Statement() string { return s.statement }

// DeadOn lists the SQLSTATEs and classes that are final by the configuration. The commit can fail with one of them too,
// because a constraint trigger may be deferred.
func (s *Transactional) DeadOn() []string { return s.deadOn }

// Arguments computes the statement's arguments. failure is not nil if they cannot be computed from the event.
func (s *Transactional) Arguments(call *effect.Call) (args []any, failure *effect.Result) {
	if s.parameters == nil {
		document, err := Document(call)
		if err != nil {
			return nil, &effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
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
			return nil, &effect.Result{Outcome: effect.Dead, Reason: reasons.Mapping, Excerpt: pgtext.Clean("parameter "+name+": "+err.Error(), effect.MaxExcerpt)}
		}
		args[i] = value
	}
	return args, nil
}

// Preview implements [effect.Previewer]. The body is the event's, because the statement's arguments are computed from
// it.
func (s *Transactional) Preview(call *effect.Call) (effect.Request, *effect.Result) {
	if _, failure := s.Arguments(call); failure != nil {
		return effect.Request{}, failure
	}
	return effect.Request{Body: call.Event.Body}, nil
}
