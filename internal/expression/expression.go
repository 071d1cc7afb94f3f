// Package expression evaluates the expressions of the configuration about an event: conditions,
// mappings and the fields of an effect's key. The language is CEL: an expression always terminates,
// and cannot read a clock or anything except its input.
//
// [Compile] checks an expression, including its types. An evaluation costs at most [MaxCost].
// Evaluation errors come from a closed set and never quote the event.
//
// Call [Compile] with the kind of result that you need, then evaluate the [Program] for each event.
// A [Mapping] builds a document from several expressions, and a [Recipe] an effect's key.
package expression

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// MaxCost limits one evaluation, in CEL's own units: roughly one for each operation and for each
// ten bytes of text read.
const MaxCost = 1_000_000

// maxSource limits an expression's text, in bytes.
const maxSource = 8 << 10

// These errors say why an expression could not be evaluated. They replace CEL's own messages, which
// may quote the event.
var (
	ErrMissing = errors.New("a field is missing")
	ErrCost    = errors.New("it costs too much")
	ErrType    = errors.New("a value has the wrong type")
	ErrFailed  = errors.New("it cannot be evaluated")
)

// Event is the variable "event" of an expression.
type Event struct {
	UUID       string    `cel:"uuid"` // assigned by Oncegate
	ID         string    `cel:"id"`   // assigned by the provider
	Type       string    `cel:"type"`
	Source     string    `cel:"source"`
	Provider   string    `cel:"provider"`
	OccurredAt time.Time `cel:"occurred_at"` // zero if the provider sent none
	ReceivedAt time.Time `cel:"received_at"`
}

// Want is the kind of result that an expression must have.
type Want int

// These are the kinds of results.
const (
	// Value is any JSON value.
	Value Want = iota
	// Condition is true or false.
	Condition
	// Texts is a text or a list of texts.
	Texts
	// Name is a text or a whole number: the name of a sequence.
	Name
	// Number is a number, a decimal text or a time: a position in a sequence.
	Number
)

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	source  string
	program cel.Program
	path    []string
	fetched bool
}

// compiler compiles programs in one environment, one at a time. The checker of cel-go 0.33.2 caches
// what it learns about the environment and reads that cache elsewhere without a lock
// (checker/env.go: Catalog and cloneWithDecls). Programs are compiled when a configuration is
// loaded; their evaluation needs no lock.
type compiler struct {
	mu  sync.Mutex
	env *cel.Env
}

// The compilers are built once, because building them is slow.
var (
	shared            = sync.OnceValues(func() (*compiler, error) { return newCompiler() })
	sharedWithFetched = sync.OnceValues(func() (*compiler, error) { return newCompiler(fetchedVariable()) })
	sharedWithKey     = sync.OnceValues(func() (*compiler, error) {
		return newCompiler(fetchedVariable(), cel.Variable("key", cel.StringType), cel.Variable("key_uuid", cel.StringType))
	})
)

func fetchedVariable() cel.EnvOption { return cel.Variable(fetched, cel.DynType) }

func newCompiler(more ...cel.EnvOption) (*compiler, error) {
	env, err := cel.NewEnv(append([]cel.EnvOption{
		ext.NativeTypes(ext.ParseStructTags(true), reflect.TypeFor[Event]()),
		ext.Strings(),
		jsonFunction(),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.Variable("event", cel.ObjectType("expression.Event")),
		cel.Variable("body", cel.DynType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("form", cel.MapType(cel.StringType, cel.StringType)),
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("making the environment of expressions: %w", err)
	}
	return &compiler{env: env}, nil
}

// Compile checks and compiles an expression. Its error is one line and names the position. It is
// safe for concurrent use.
func Compile(source string, want Want) (*Program, error) { return compileIn(shared, source, want) }

// CompileWithFetched is [Compile] for an expression that is evaluated after the route's fetch. The
// expression can also use the answer, as "fetched": see [Input].
func CompileWithFetched(source string, want Want) (*Program, error) {
	return compileIn(sharedWithFetched, source, want)
}

// CompileWithKey is [CompileWithFetched] for an expression that becomes part of a request. The
// expression can also use the effect's idempotency key, as "key" and "key_uuid": see [Input].
func CompileWithKey(source string, want Want) (*Program, error) {
	return compileIn(sharedWithKey, source, want)
}

func compileIn(shared func() (*compiler, error), source string, want Want) (*Program, error) {
	if strings.TrimSpace(source) == "" {
		return nil, errors.New("the expression is empty")
	}
	if len(source) > maxSource {
		return nil, fmt.Errorf("the expression is longer than %d bytes", maxSource)
	}
	c, err := shared()
	if err != nil {
		return nil, err
	}
	return c.compile(source, want)
}

func (c *compiler) compile(source string, want Want) (*Program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ast, issues := c.env.Compile(source)
	if issues != nil && issues.Err() != nil {
		first := issues.Errors()[0]
		at := fmt.Sprintf("column %d", first.Location.Column()+1)
		if line := first.Location.Line(); line > 1 { // column numbers are relative to the line
			at = fmt.Sprintf("line %d, %s", line, at)
		}
		return nil, fmt.Errorf("%s: %s", at, message(first.Message))
	}
	if err := fits(ast.OutputType(), want); err != nil {
		return nil, err
	}
	program, err := c.env.Program(ast, cel.CostLimit(MaxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("preparing the expression: %w", err)
	}
	return &Program{source: source, program: program, path: pathOf(ast.NativeRep().Expr()), fetched: readsFetched(ast)}, nil
}

// readsFetched reports whether a checked expression refers to the answer of the fetch.
func readsFetched(ast *cel.Ast) bool {
	for _, reference := range ast.NativeRep().ReferenceMap() {
		if reference.Name == fetched {
			return true
		}
	}
	return false
}

// fits refuses an expression whose result can never have the wanted type. A type that is known only
// at run time is checked at evaluation.
func fits(got *cel.Type, want Want) error {
	if got.IsExactType(cel.DynType) {
		return nil
	}
	switch want {
	case Condition:
		if !got.IsExactType(cel.BoolType) {
			return fmt.Errorf("it returns %s, want true or false", got)
		}
	case Texts:
		if !got.IsExactType(cel.StringType) && got.Kind() != types.ListKind {
			return fmt.Errorf("it returns %s, want a text or a list of texts", got)
		}
	case Name:
		switch got.Kind() {
		case types.StringKind, types.IntKind, types.UintKind, types.OpaqueKind: // an optional value is opaque
		default:
			return fmt.Errorf("it returns %s, want a text or a whole number", got)
		}
	case Number:
		switch got.Kind() {
		case types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.TimestampKind, types.OpaqueKind:
		default:
			return fmt.Errorf("it returns %s, want a number, a decimal text or a time", got)
		}
	case Value:
		if kind := got.Kind(); kind == types.TypeKind || kind == types.ErrorKind || kind == types.StructKind {
			return fmt.Errorf("it returns %s, which JSON does not have", got)
		}
	}
	return nil
}

// String returns the source text of the expression.
func (p *Program) String() string { return p.source }

// ReadsFetched reports whether the expression uses the answer of the route's fetch.
func (p *Program) ReadsFetched() bool { return p.fetched }

// Bool evaluates a condition.
func (p *Program) Bool(in *Input) (bool, error) {
	out, err := p.eval(in)
	if err != nil {
		return false, err
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, ErrType
	}
	return bool(b), nil
}

// Value evaluates the expression to a JSON value: nil, bool, int64, uint64, float64, string, []any
// or map[string]any.
func (p *Program) Value(in *Input) (any, error) {
	out, err := p.eval(in)
	if err != nil {
		return nil, err
	}
	return native(out, 0)
}

// Texts evaluates the expression to a list of texts. A single text becomes a list of one.
func (p *Program) Texts(in *Input) ([]string, error) {
	value, err := p.Value(in)
	if err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case string:
		return []string{v}, nil
	case []any:
		out := make([]string, len(v))
		for i, item := range v {
			text, ok := item.(string)
			if !ok {
				return nil, ErrType
			}
			out[i] = text
		}
		return out, nil
	}
	return nil, ErrType
}

func (p *Program) eval(in *Input) (ref.Val, error) {
	out, _, err := p.program.Eval(in)
	if err == nil {
		return out, nil
	}
	// The matched texts are CEL's. They only select an error and are never returned.
	switch text := err.Error(); {
	case strings.Contains(text, "no such key"), strings.Contains(text, "no such attribute"), strings.Contains(text, "index out of"):
		return nil, ErrMissing
	case strings.Contains(text, "cost limit"):
		return nil, ErrCost
	case strings.Contains(text, "no such overload"), strings.Contains(text, "unsupported"):
		return nil, ErrType
	}
	return nil, ErrFailed
}
