// Package expression evaluates what the configuration says about an event:
// conditions, mappings and the fields of an effect's key. The language is CEL: it
// cannot loop without end, read a clock, or reach anything but what it is given.
//
// An expression is checked when it is compiled, types included, and costs at
// most [MaxCost] when it is evaluated. Errors of evaluation are one of a closed
// set and never quote the event.
//
// Call [Compile] with what the expression is wanted for, then evaluate the [Program] for each
// event; a [Mapping] makes a document of several, and a [Recipe] an effect's key.
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

// MaxCost bounds one evaluation, in CEL's own units: roughly one for each
// operation and for each ten bytes of text looked at.
const MaxCost = 1_000_000

// maxSource bounds an expression's text, in bytes.
const maxSource = 8 << 10

// Why an expression could not be evaluated. What CEL itself says may quote the
// event and is not kept.
var (
	ErrMissing = errors.New("a field is missing")
	ErrCost    = errors.New("it costs too much")
	ErrType    = errors.New("a value has the wrong type")
	ErrFailed  = errors.New("it cannot be evaluated")
)

// Event is what an expression sees as "event".
type Event struct {
	UUID       string    `cel:"uuid"` // ours
	ID         string    `cel:"id"`   // the provider's
	Type       string    `cel:"type"`
	Source     string    `cel:"source"`
	Provider   string    `cel:"provider"`
	OccurredAt time.Time `cel:"occurred_at"` // zero if the provider gave none
	ReceivedAt time.Time `cel:"received_at"`
}

// Want is what an expression has to give.
type Want int

// What expressions give.
const (
	// Value is anything that JSON has.
	Value Want = iota
	// Condition is true or false.
	Condition
	// Texts is a text or a list of texts.
	Texts
	// Name is a text or a whole number: what a sequence is called.
	Name
	// Number is a number, a decimal text or a time: a place in a sequence.
	Number
)

// Program is a compiled expression. It may be used concurrently.
type Program struct {
	source  string
	program cel.Program
	path    []string
}

// compiler makes programs in one environment, one at a time: the checker of
// cel-go 0.33.2 keeps what it finds out about the environment for later, and
// reads it elsewhere without asking whether somebody writes (checker/env.go:
// Catalog and cloneWithDecls). Programs are made when a configuration is loaded;
// they do not wait for each other when they are evaluated.
type compiler struct {
	mu  sync.Mutex
	env *cel.Env
}

// shared and sharedWithKey are built once, since building them is slow.
var (
	shared        = sync.OnceValues(func() (*compiler, error) { return newCompiler() })
	sharedWithKey = sync.OnceValues(func() (*compiler, error) {
		return newCompiler(cel.Variable("key", cel.StringType), cel.Variable("key_uuid", cel.StringType))
	})
)

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
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("making the environment of expressions: %w", err)
	}
	return &compiler{env: env}, nil
}

// Compile checks an expression and makes it ready. Its error is one line and
// says where. It may be called concurrently.
func Compile(source string, want Want) (*Program, error) { return compileIn(shared, source, want) }

// CompileWithKey is [Compile] for an expression that makes a part of a request. It also
// sees the effect's idempotency key, as "key" and "key_uuid": see [Input].
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
		if line := first.Location.Line(); line > 1 { // columns are counted from the beginning of a line
			at = fmt.Sprintf("line %d, %s", line, at)
		}
		return nil, fmt.Errorf("%s: %s", at, strings.Join(strings.Fields(first.Message), " "))
	}
	if err := fits(ast.OutputType(), want); err != nil {
		return nil, err
	}
	program, err := c.env.Program(ast, cel.CostLimit(MaxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("preparing the expression: %w", err)
	}
	return &Program{source: source, program: program, path: pathOf(ast.NativeRep().Expr())}, nil
}

// fits refuses what can never have the type wanted; what is known only at run
// time is looked at then.
func fits(got *cel.Type, want Want) error {
	if got.IsExactType(cel.DynType) {
		return nil
	}
	switch want {
	case Condition:
		if !got.IsExactType(cel.BoolType) {
			return fmt.Errorf("it gives %s, want true or false", got)
		}
	case Texts:
		if !got.IsExactType(cel.StringType) && got.Kind() != types.ListKind {
			return fmt.Errorf("it gives %s, want a text or a list of texts", got)
		}
	case Name:
		switch got.Kind() {
		case types.StringKind, types.IntKind, types.UintKind, types.OpaqueKind: // an optional value is opaque
		default:
			return fmt.Errorf("it gives %s, want a text or a whole number", got)
		}
	case Number:
		switch got.Kind() {
		case types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.TimestampKind, types.OpaqueKind:
		default:
			return fmt.Errorf("it gives %s, want a number, a decimal text or a time", got)
		}
	case Value:
		if kind := got.Kind(); kind == types.TypeKind || kind == types.ErrorKind || kind == types.StructKind {
			return fmt.Errorf("it gives %s, which JSON does not have", got)
		}
	}
	return nil
}

// String gives the expression as it was written.
func (p *Program) String() string { return p.source }

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

// Value evaluates to what JSON has: nil, bool, int64, uint64, float64, string,
// []any, map[string]any.
func (p *Program) Value(in *Input) (any, error) {
	out, err := p.eval(in)
	if err != nil {
		return nil, err
	}
	return native(out, 0)
}

// Texts evaluates to texts; one alone is a list of one.
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
	// The texts are CEL's own; they are only told apart, never passed on.
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
