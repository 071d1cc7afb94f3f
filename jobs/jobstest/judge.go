package jobstest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox/sequence"
)

// ledger is kept outside the system. It records which events begin, in order.
type ledger struct {
	mu    sync.Mutex
	order map[int][]int // by key: the numbers that begin
	first map[event]time.Time
}

func (l *ledger) begins(e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.order == nil {
		l.order = map[int][]int{}
	}
	l.order[e.key] = append(l.order[e.key], e.number)
}

// since returns how long ago the event was first attempted.
func (l *ledger) since(e event) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = map[event]time.Time{}
	}
	now := time.Now()
	if l.first[e].IsZero() {
		l.first[e] = now
	}
	return now.Sub(l.first[e])
}

func parseEvent(body []byte) (event, error) {
	var doc struct {
		Key    string `json:"key"`
		Number int    `json:"number"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return event{}, err
	}
	key, err := strconv.Atoi(strings.TrimPrefix(doc.Key, "order_"))
	return event{key, doc.Number}, err
}

func (r *Report) wrong(format string, args ...any) {
	if r.Errors++; len(r.Wrong) < 20 {
		r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
	}
}

const leftOver = `
SELECT coalesce(s.key_label, ''), e.sequence_number::text, e.state, coalesce(e.reason, '')
FROM effect e
LEFT JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash
WHERE e.finished_at IS NULL
ORDER BY 1, e.sequence_number
LIMIT 1000`

// judge reports everything that must not have happened.
func (c *campaign) judge(ctx context.Context, r *Report) error {
	if err := c.admin.QueryRow(ctx, `SELECT count(*) FROM effect`).Scan(&r.Effects); err != nil {
		return err
	}
	if r.Effects != c.Keys*c.Events {
		r.wrong("%d effects are recorded, want %d", r.Effects, c.Keys*c.Events)
	}
	rows, err := c.admin.Query(ctx, leftOver)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key, number, state, reason string
		if err := rows.Scan(&key, &number, &state, &reason); err != nil {
			return err
		}
		r.wrong("stuck: %s/%s is %s %s", key, number, state, reason)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	c.judgeBegins(r)
	if c.InDatabase {
		if err := c.judgeApplied(ctx, r); err != nil {
			return err
		}
	}
	for _, store := range c.past {
		for _, s := range store.OrderStats() {
			r.HeldRunnable += s.HeldRunnable
			r.Abandoned += s.AbandonedGaps
			r.Held += s.Held
			r.Superseded += s.Superseded
			r.Late += s.Late
			r.Filtered += s.Filtered
		}
	}
	r.Deadlocks = c.trace.deadlocks
	return nil
}

// judgeBegins checks that all numbers began, and in order. A number may begin again, after a
// failure or a kill, only before the next one begins.
func (c *campaign) judgeBegins(r *Report) {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	for key := range c.Keys {
		last, seen := 0, map[int]bool{}
		for _, number := range c.ledger.order[key] {
			if number < last {
				r.wrong("out of order: %s/%d begins after %d", event{key, number}.keyName(), number, last)
			}
			if !c.Takes(number) {
				r.wrong("%s/%d begins, though the route does not take it", event{key, number}.keyName(), number)
			}
			last, seen[number] = max(last, number), true
		}
		r.Applied += len(seen)
		for number := 1; number <= c.Events; number++ {
			if c.Takes(number) && !seen[number] && (c.Policy.Mode != sequence.Latest || number == c.Events) {
				r.wrong("lost: %s/%d never began", event{key, number}.keyName(), number)
			}
		}
	}
}

const readApplied = `SELECT key_name, array_agg(number ORDER BY place) FROM applied GROUP BY key_name`

// judgeApplied checks that the database has each number once, and in order.
func (c *campaign) judgeApplied(ctx context.Context, r *Report) error {
	rows, err := c.admin.Query(ctx, readApplied)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var numbers []int
		if err := rows.Scan(&key, &numbers); err != nil {
			return err
		}
		for i, number := range numbers {
			switch {
			case i > 0 && number == numbers[i-1]:
				r.wrong("twice: %s/%d is applied again", key, number)
			case i > 0 && number < numbers[i-1]:
				r.wrong("out of order: %s/%d is applied after %d", key, number, numbers[i-1])
			}
		}
	}
	return rows.Err()
}
