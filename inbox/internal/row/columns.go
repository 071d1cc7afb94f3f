package row

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Columns are the columns of what a statement unnests, in one list from which both sides come: the statement takes its
// parameters and names from [Columns.Arrays] and [Columns.Names], and the call takes its arguments from
// [Columns.Append]. A column therefore cannot get another's values. R is the row that the columns are read from.
//
// A list is made once, as a package variable. For each group of rows a column costs one slice and no more: nothing is
// boxed or looked up for a single value.
type Columns[R any] struct {
	first   int
	columns []Column[R]
	arrays  string
	names   string
}

// Column is one column: its name in the statement, its PostgreSQL type, and how to read its value from a row. The
// constructors tie the PostgreSQL type to the Go type, so that the compiler refuses a value of another type.
type Column[R any] struct {
	name, sqlType string
	values        valuer[R]
}

// valuer returns one column of some rows as a slice of the column's type.
type valuer[R any] interface {
	of(rows []R) any
	ofEach(rows []*R) any
}

// ColumnsFrom makes a list whose first parameter has the number first: 1, unless the statement has other parameters
// before it. It panics on a list that no statement could use: an empty one, or one with a column without a name or with
// the name of another one.
func ColumnsFrom[R any](first int, columns ...Column[R]) *Columns[R] {
	if first < 1 {
		panic(fmt.Sprintf("row: the parameters of a statement count from 1, not from %d", first))
	}
	if len(columns) == 0 {
		panic("row: a list of columns without a column")
	}
	var arrays, names strings.Builder
	known := make(map[string]bool, len(columns))
	for i, c := range columns {
		switch {
		case c.name == "" || c.sqlType == "" || c.values == nil:
			panic(fmt.Sprintf("row: column %d has no name or no type: make it with a constructor as row.Text", i+1))
		case known[c.name]:
			panic(fmt.Sprintf("row: there are two columns %q: rename one", c.name))
		}
		known[c.name] = true
		if i > 0 {
			arrays.WriteString(", ")
			names.WriteString(", ")
		}
		arrays.WriteString("$" + strconv.Itoa(first+i) + "::" + c.sqlType + "[]")
		names.WriteString(c.name)
	}
	return &Columns[R]{first: first, columns: columns, arrays: arrays.String(), names: names.String()}
}

// With returns the list with more columns after its own.
func (c *Columns[R]) With(more ...Column[R]) *Columns[R] {
	return ColumnsFrom(c.first, slices.Concat(c.columns, more)...)
}

// Arrays are the parameters as unnest takes them: "$1::uuid[], $2::int[]".
func (c *Columns[R]) Arrays() string { return c.arrays }

// Subscripted is a subquery with the same rows and names as unnest(Arrays()), in the same order. It reads each value by its
// subscript. For few rows this is faster than unnest, which copies each column before it returns the first row. For many rows it is
// slower, because PostgreSQL walks through an array of texts to find one of them.
func (c *Columns[R]) Subscripted() string {
	values := make([]string, len(c.columns))
	for i, column := range c.columns {
		values[i] = fmt.Sprintf("($%d::%s[])[i] AS %s", c.first+i, column.sqlType, column.name)
	}
	return fmt.Sprintf("(SELECT %s FROM generate_series(1, cardinality($%d::%s[])) AS i)", strings.Join(values, ", "), c.first, c.columns[0].sqlType)
}

// Names are the names of the columns in the same order: "id, source_id".
func (c *Columns[R]) Names() string { return c.names }

// Next is the number of the parameter that follows the list.
func (c *Columns[R]) Next() int { return c.first + len(c.columns) }

// Append appends the columns of the rows to the arguments before them. It panics if the number of those arguments does
// not match the list's first number, because the statement would read wrong columns.
func (c *Columns[R]) Append(args []any, rows []R) []any {
	args = c.grow(args)
	for i := range c.columns {
		args = append(args, c.columns[i].values.of(rows))
	}
	return args
}

// AppendEach is [Columns.Append] for rows that are kept as pointers.
func (c *Columns[R]) AppendEach(args []any, rows []*R) []any {
	args = c.grow(args)
	for i := range c.columns {
		args = append(args, c.columns[i].values.ofEach(rows))
	}
	return args
}

// Args are the arguments of a statement that begins with the list.
func (c *Columns[R]) Args(rows []R) []any {
	return c.Append(nil, rows)
}

// grow makes room for the columns after the existing arguments.
func (c *Columns[R]) grow(args []any) []any {
	if len(args) != c.first-1 {
		panic(fmt.Sprintf("row: column %s is parameter %d, but %d arguments stand before it", c.columns[0].name, c.first, len(args)))
	}
	return slices.Grow(args, len(c.columns))
}

// UUID is a column of ids.
func UUID[R any, T ~[16]byte](name string, get func(*R) T) Column[R] {
	return Column[R]{name, "uuid", plain[R, T](get)}
}

// Text is a column of texts; states and other words are texts too.
func Text[R any, T ~string](name string, get func(*R) T) Column[R] {
	return Column[R]{name, "text", text[R, T](get)}
}

// OptionalText is a column of texts that may be NULL.
func OptionalText[R any](name string, get func(*R) *string) Column[R] {
	return Column[R]{name, "text", plain[R, *string](get)}
}

// Int is a column of 32-bit numbers; values of type *int32 may be NULL.
func Int[R any, T int32 | *int32](name string, get func(*R) T) Column[R] {
	return Column[R]{name, "int", plain[R, T](get)}
}

// Bigint is a column of 64-bit numbers.
func Bigint[R any](name string, get func(*R) int64) Column[R] {
	return Column[R]{name, "bigint", plain[R, int64](get)}
}

// Bool is a column of truth values.
func Bool[R any](name string, get func(*R) bool) Column[R] {
	return Column[R]{name, "boolean", plain[R, bool](get)}
}

// Bytes is a column of bytes; nil is NULL.
func Bytes[R any](name string, get func(*R) []byte) Column[R] {
	return Column[R]{name, "bytea", plain[R, []byte](get)}
}

// Time is a column of instants; values of type *time.Time may be NULL, see [Micros].
func Time[R any, T time.Time | *time.Time](name string, get func(*R) T) Column[R] {
	return Column[R]{name, "timestamptz", plain[R, T](get)}
}

// plain reads values that are sent unchanged.
type plain[R, T any] func(*R) T

func (get plain[R, T]) of(rows []R) any {
	out := make([]T, len(rows))
	for i := range rows {
		out[i] = get(&rows[i])
	}
	return out
}

func (get plain[R, T]) ofEach(rows []*R) any {
	out := make([]T, len(rows))
	for i, r := range rows {
		out[i] = get(r)
	}
	return out
}

// text reads values of any type of words. They are sent as strings, which the driver knows without looking at each.
type text[R any, T ~string] func(*R) T

func (get text[R, T]) of(rows []R) any {
	out := make([]string, len(rows))
	for i := range rows {
		out[i] = string(get(&rows[i]))
	}
	return out
}

func (get text[R, T]) ofEach(rows []*R) any {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = string(get(r))
	}
	return out
}
