package read

import (
	"encoding/json"
	"strconv"

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

// CountOf returns a number of rows for people: with a + after it if there are more, or may be.
func CountOf(n int, more bool) string {
	if more {
		return thousands(n) + "+"
	}
	return thousands(n)
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
