package read

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// MaxCount is the highest count that people are shown. More rows than that need no exact number, and counting them
// would read them all.
const MaxCount = row.MaxCounted

// Count is a number of rows, counted up to [MaxCount]. A value above MaxCount means "more than MaxCount".
type Count int

// String is the number, or "10,000+" if there are more than were counted.
func (c Count) String() string {
	if c > MaxCount {
		return thousands(MaxCount) + "+"
	}
	return thousands(int(c))
}

// Exact reports whether the count is exact and not a lower bound.
func (c Count) Exact() bool { return c <= MaxCount }

// MarshalJSON returns {"count": 10000, "more": true} if there are more than MaxCount, and {"count": 12} otherwise.
func (c Count) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count int  `json:"count"`
		More  bool `json:"more,omitempty"`
	}{min(int(c), MaxCount), !c.Exact()})
}

// thousands writes a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	text := strconv.Itoa(n % 1000)
	return thousands(n/1000) + "," + "000"[len(text):] + text
}

// rowQuerier is a pool or a transaction.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// programText is text of the program: only a constant converts to it by itself.
type programText string

// CountUpTo counts the rows of a statement. It stops reading after MaxCount + 1 rows. The statement needs an index
// that contains the rows to count and few others, because PostgreSQL also reads the rows that it filters out. rows has
// no LIMIT.
func CountUpTo(ctx context.Context, db rowQuerier, rows programText, args ...any) (Count, error) {
	var n Count
	err := db.QueryRow(ctx, "SELECT count(*) FROM ("+string(rows)+" LIMIT "+strconv.Itoa(MaxCount+1)+") c", args...).Scan(&n)
	return n, err
}
