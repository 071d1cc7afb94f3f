package inbox

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// leastStatement is what a statement of a search has even if the budget is used up: it may be one that finds its rows
// at once.
const leastStatement = 10 * time.Millisecond

// limit gives a context whose statements end when the search has taken so long.
func (s *search) limit(ctx context.Context, most time.Duration) context.Context {
	return row.LimitTime(ctx, func() time.Duration { return max(most-s.now().Sub(s.began), leastStatement) })
}
