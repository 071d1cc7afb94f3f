package row_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

type state string

type sample struct {
	id    [16]byte
	state state
	note  *string
	count int32
	key   *int32
	job   int64
	open  bool
	body  []byte
	at    *time.Time
}

func sampleColumns(first int) *row.Columns[sample] {
	return row.ColumnsFrom(first,
		row.UUID("id", func(s *sample) [16]byte { return s.id }),
		row.Text("state", func(s *sample) state { return s.state }),
		row.OptionalText("note", func(s *sample) *string { return s.note }),
		row.Int("count", func(s *sample) int32 { return s.count }),
		row.Int("key_id", func(s *sample) *int32 { return s.key }),
		row.Bigint("job_id", func(s *sample) int64 { return s.job }),
		row.Bool("open", func(s *sample) bool { return s.open }),
		row.Bytes("body", func(s *sample) []byte { return s.body }),
		row.Time("at", func(s *sample) *time.Time { return s.at }),
	)
}

func samples() []sample {
	note, key, at := "a note", int32(7), time.Unix(1, 0)
	return []sample{
		{id: [16]byte{1}, state: "done", note: &note, count: 2, key: &key, job: 3, open: true, body: []byte("x"), at: &at},
		{id: [16]byte{2}, state: "dead"},
	}
}

// The text and the arguments come from the list in one order, and each argument is a slice of the type that the text
// names.
func TestColumnsGiveTextAndArgumentsInOneOrder(t *testing.T) {
	t.Parallel()
	columns, rows := sampleColumns(3), samples()
	const arrays = "$3::uuid[], $4::text[], $5::text[], $6::int[], $7::int[], $8::bigint[], $9::boolean[], $10::bytea[], $11::timestamptz[]"
	if columns.Arrays() != arrays {
		t.Errorf("the parameters are %s, want %s", columns.Arrays(), arrays)
	}
	const subscripted = "(SELECT ($3::uuid[])[i] AS id, ($4::text[])[i] AS state, ($5::text[])[i] AS note, ($6::int[])[i] AS count, ($7::int[])[i] AS key_id, " +
		"($8::bigint[])[i] AS job_id, ($9::boolean[])[i] AS open, ($10::bytea[])[i] AS body, ($11::timestamptz[])[i] AS at FROM generate_series(1, cardinality($3::uuid[])) AS i)"
	if columns.Subscripted() != subscripted {
		t.Errorf("with subscripts they are %s, want %s", columns.Subscripted(), subscripted)
	}
	const names = "id, state, note, count, key_id, job_id, open, body, at"
	if columns.Names() != names {
		t.Errorf("the names are %s, want %s", columns.Names(), names)
	}
	if columns.Next() != 12 {
		t.Errorf("the next parameter is %d, want 12", columns.Next())
	}
	want := []any{
		"first", "second", [][16]byte{{1}, {2}}, []string{"done", "dead"}, []*string{rows[0].note, nil}, []int32{2, 0}, []*int32{rows[0].key, nil},
		[]int64{3, 0}, []bool{true, false}, [][]byte{[]byte("x"), nil}, []*time.Time{rows[0].at, nil},
	}
	if got := columns.Append([]any{"first", "second"}, rows); !reflect.DeepEqual(got, want) {
		t.Errorf("the arguments are %v, want %v", got, want)
	}
	if got := columns.AppendEach([]any{"first", "second"}, []*sample{&rows[0], &rows[1]}); !reflect.DeepEqual(got, want) {
		t.Errorf("the arguments of pointers are %v, want %v", got, want)
	}
	if got := sampleColumns(1).Args(rows); !reflect.DeepEqual(got, want[2:]) {
		t.Errorf("the arguments from the first on are %v, want %v", got, want[2:])
	}
}

// A list that no statement could use is found when the program starts, and arguments that would stand at another
// parameter's place before anything is sent.
func TestColumnsOutOfStepAreFound(t *testing.T) {
	t.Parallel()
	id := row.UUID("id", func(s *sample) [16]byte { return s.id })
	for name, c := range map[string]struct {
		do   func()
		says string
	}{
		"two of a name": {
			func() { row.ColumnsFrom(1, id, row.Bigint("id", func(s *sample) int64 { return s.job })) }, `two columns "id"`,
		},
		"no name":             {func() { row.ColumnsFrom(1, row.Bool("", func(s *sample) bool { return s.open })) }, "no name"},
		"no type":             {func() { row.ColumnsFrom(1, id, row.Column[sample]{}) }, "column 2 has no name or no type"},
		"no column":           {func() { row.ColumnsFrom[sample](1) }, "without a column"},
		"from zero":           {func() { row.ColumnsFrom(0, id) }, "count from 1"},
		"an argument before":  {func() { row.ColumnsFrom(1, id).Append([]any{"node"}, samples()) }, "column id is parameter 1, but 1 arguments"},
		"an argument missing": {func() { row.ColumnsFrom(3, id).AppendEach([]any{"node"}, nil) }, "column id is parameter 3, but 1 arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, c.says) {
					t.Errorf("it says %q, want %q in it", said, c.says)
				}
			}()
			c.do()
		})
	}
}

// A group's arguments cost the same number of allocations however many rows there are: one slice for each column.
//
//nolint:paralleltest // what parallel tests allocate would be counted too
func TestColumnsAllocateOnceAColumn(t *testing.T) {
	columns := sampleColumns(1)
	allocations := func(rows int) float64 {
		group := make([]sample, rows)
		return testing.AllocsPerRun(20, func() { _ = columns.Args(group) })
	}
	if few, many := allocations(2), allocations(500); many > few {
		t.Errorf("%v allocations for 500 rows, %v for 2", many, few)
	}
}
