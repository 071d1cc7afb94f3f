package attention

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// failsFor is how long an effect must have waited before its target is one that fails. A single attempt that failed is no reason to
// call a person.
const failsFor = time.Minute

// Failure is a target that fails, with what waits for it.
type Failure struct {
	Target string `json:"target"`

	// Effects is how many effects wait for another attempt there, and Oldest when the event of the oldest one was received. More says
	// that there are more effects.
	Effects int64     `json:"effects"`
	More    bool      `json:"more,omitempty"`
	Oldest  time.Time `json:"oldest"`

	// Code is the last answer, such as 500. It is empty if there was none; Reason then says why, if that is known.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Answer is the last answer in a few words.
func (f *Failure) Answer() string {
	if f.Code != "" {
		return "last answer " + f.Code
	}
	if f.Reason == "" {
		return "no answer"
	}
	return "no answer: " + f.Reason
}

// The effects that wait for another attempt, those due first. Like the conditions of the other kinds, the one on the state applies until
// the budget ends. Those that wait for a pause have a kind of their own. The newest failure has the latest time for its next
// attempt, because the waits grow. An effect that an open breaker puts off waits for the same target, and its reason does not say how the
// last attempt failed: the attempt does. A last row without a target says that the bound was reached, also if no target was found before it.
const readFailing = `
WITH seen AS MATERIALIZED (
    SELECT e.id, e.route_id, e.event_id, e.state, e.reason, e.last_code, e.attempts, e.next_at
    FROM effect e
    WHERE e.next_at IS NOT NULL AND CASE WHEN clock_timestamp() > now() + $3::bigint * interval '1 microsecond' THEN true ELSE e.state = 'retry' OR e.reason = 'target_open' END
    ORDER BY e.next_at, e.id
    LIMIT $1)
SELECT r.target, count(*), min(v.received_at),
    coalesce((array_agg(k.last_code ORDER BY k.next_at DESC) FILTER (WHERE k.last_code IS NOT NULL))[1], ''),
    coalesce(
        (array_agg(k.reason ORDER BY k.next_at DESC) FILTER (WHERE k.reason <> 'target_open'))[1],
        (SELECT a.reason FROM effect_attempt a WHERE a.effect_id = (array_agg(k.id ORDER BY k.attempts DESC, k.next_at DESC))[1] ORDER BY a.version DESC, a.attempt DESC LIMIT 1), ''),
    (SELECT count(*) FROM seen)
FROM seen k
JOIN route r ON r.id = k.route_id
JOIN source s ON s.id = r.source_id
JOIN inbox_event v ON v.id = k.event_id
WHERE (k.state = 'retry' OR k.reason = 'target_open') AND coalesce(k.reason, '') NOT IN ('paused', 'resent', 'route_unknown') AND ($2::text = '' OR coalesce(v.tenant, s.tenant) = $2)
GROUP BY r.target
HAVING min(v.received_at) < now() - $4::bigint * interval '1 microsecond'
UNION ALL
SELECT '', 0, now(), '', '', n.count FROM (SELECT count(*) FROM seen) n WHERE n.count >= $1
ORDER BY 2 DESC, 1`

// queueFailing queues the statement that finds the targets that fail.
func (r *Reader) queueFailing(b *pgx.Batch, tenant string, found map[Kind]*Item) {
	b.Queue(readFailing, MaxCounted+1, tenant, r.cfg.Budget.Microseconds(), failsFor.Microseconds()).Query(func(rows pgx.Rows) error {
		item := &Item{Kind: Failing}
		found[Failing] = item
		var f Failure
		var seen int64
		_, err := pgx.ForEachRow(rows, []any{&f.Target, &f.Effects, &f.Oldest, &f.Code, &f.Reason, &seen}, func() error {
			f.More = seen > MaxCounted
			if item.More = item.More || f.More; f.Target == "" {
				return nil
			}
			item.Count++
			item.Failures = append(item.Failures, f)
			if oldest := f.Oldest; item.Oldest == nil || oldest.Before(*item.Oldest) {
				item.Oldest = &oldest
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("finding targets that fail: %w", err)
		}
		return nil
	})
}
