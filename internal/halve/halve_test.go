package halve_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/oncegate/oncegate/internal/halve"
)

// All rows that do not fail are processed once, in order, and the failing rows are returned.
func TestEachLeavesOutTheRowsThatFail(t *testing.T) {
	t.Parallel()
	locked := &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "55P03", Routine: "heap_lock_tuple"}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "items")
		bad := rapid.SliceOfDistinct(rapid.IntRange(0, 299), rapid.ID[int]).Draw(t, "bad")
		var items, done []int
		for i := range n {
			items = append(items, i)
		}
		calls := 0
		left, err := halve.Each(items, func(part []int) error {
			calls++
			if slices.ContainsFunc(part, func(i int) bool { return slices.Contains(bad, i) }) {
				return fmt.Errorf("waking: %w", locked)
			}
			done = append(done, part...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range left {
			if !slices.Contains(bad, l.Item) || !errors.Is(l.Err, locked) {
				t.Errorf("%d is left out: %v", l.Item, l.Err)
			}
			done = append(done, l.Item)
		}
		slices.Sort(done)
		if !slices.Equal(done, items) {
			t.Errorf("done or left out: %v", done)
		}
		if len(left) == 1 && calls > 2*10+1 {
			t.Errorf("%d calls to find one row of %d", calls, n)
		}
	})
}

func TestEachEndsAtAnErrorThatConcernsAllRows(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		errors.New("conn closed"),
		&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57P01"},
		&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "23505"},
		&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "53100"},
		&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "25006"},
		&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "42P01"},
		&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "55P03", Routine: "ProcessInterrupts"}, // the lock of a table
	} {
		calls := 0
		if _, got := halve.Each([]int{1, 2, 3, 4}, func([]int) error { calls++; return err }); !errors.Is(got, err) || calls != 1 {
			t.Errorf("%v: %d calls, %v", err, calls, got)
		}
	}
}
