package read

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// leastStatement is the time limit of a statement when the budget is used up, because the statement may find its rows at
// once.
const leastStatement = 10 * time.Millisecond

// limit returns a context that ends a statement when the search has run for the time most, but not before the statement
// has had leastStatement.
func (s *search) limit(ctx context.Context, most time.Duration) context.Context {
	return row.LimitTime(ctx, func() time.Duration { return max(most-s.now().Sub(s.began), leastStatement) })
}
