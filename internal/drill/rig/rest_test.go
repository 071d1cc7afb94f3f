package rig_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// counts is a database that answers with one number after the other, and with the last of them again and again.
type counts struct {
	numbers []int
	asked   int
}

var errUnused = errors.New("only one row is asked for")

func (c *counts) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errUnused }

func (c *counts) QueryRow(context.Context, string, ...any) pgx.Row {
	c.asked++
	return number(c.numbers[min(c.asked, len(c.numbers))-1])
}

type number int

func (n number) Scan(into ...any) error {
	if at, ok := into[0].(*int); ok {
		*at = int(n)
	}
	return nil
}

// A backlog that shrinks is waited for beyond the limit, and one that does not shrink is not.
func TestRestWaitsForProgress(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	shrinking := &counts{}
	for n := 20; n >= 0; n-- { // a second in all
		shrinking.numbers = append(shrinking.numbers, n)
	}
	if left, err := rig.Rest(t.Context(), shrinking, limit); left != 0 || err != nil {
		t.Errorf("a backlog that shrinks: %d left, %v", left, err)
	}
	stuck := &counts{numbers: []int{7, 5, 6, 5}}
	if left, err := rig.Rest(t.Context(), stuck, limit); left != 5 || err != nil {
		t.Errorf("a backlog that is stuck: %d left, %v", left, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rig.Rest(ctx, stuck, limit); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
