package oncegatetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/reasons"
)

// unfinished is an effect for which something is left to do.
type unfinished struct {
	Source, EventID, Route, State, Reason string
	Attempts                              int
	NextAt                                *time.Time
	Due                                   bool // within patience, by the clock of the database
}

// One statement sees all effects in one snapshot, because an effect passes from one state to another. An effect that is held in a
// blocked stream waits for an operator, and so does one whose place in its order a person must decide. A row of the outbox is an
// event that has been emitted and not recorded yet.
const findUnfinished = `
SELECT s.name, v.event_id, r.name, e.state, coalesce(e.reason, ''), e.attempts, e.next_at, coalesce(e.next_at < now() + $1, true)
FROM effect e
JOIN route r ON r.id = e.route_id
JOIN inbox_event v ON v.id = e.event_id
JOIN source s ON s.id = v.source_id
WHERE e.state IN ('pending', 'claimed', 'retry')
    OR e.state = 'held' AND coalesce(e.reason, '') <> ALL ($2)
        AND NOT EXISTS (SELECT FROM stream b WHERE b.route_id = e.route_id AND b.key_hash = e.sequence_key_hash AND b.blocked_by IS NOT NULL)
UNION ALL
SELECT o.source, o.event_id, '', 'emitted', '', 0, NULL, true FROM outbox o WHERE o.refused_at IS NULL
LIMIT 100`

// Wait waits until nothing is left to do: each effect is done, dead, indeterminate, superseded, skipped or a duplicate, or is held in a
// stream that is blocked, and each emitted event is recorded. It fails the test after a minute, and at once if only retries
// are left that are due later; the message names the effects. Give the routes of a test a short Retry.
func (i *Inbox) Wait(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := i.unfinished(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			tb.Fatalf("oncegatetest: %v", err)
		case err == nil && len(left) == 0:
			return
		case err == nil && hopeless(left):
			tb.Fatalf("oncegatetest: only retries are left that are due later: shorten Retry of their routes\n%s", describe(left))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			left, _ := i.unfinished(context.WithoutCancel(ctx))
			tb.Fatalf("oncegatetest: not everything is done after %s\n%s", patience, describe(left))
		}
	}
}

func (i *Inbox) unfinished(ctx context.Context) ([]unfinished, error) {
	rows, err := i.pool.Query(ctx, findUnfinished, patience, forPerson())
	if err != nil {
		return nil, fmt.Errorf("looking for unfinished effects: %w", err)
	}
	left, err := pgx.CollectRows(rows, pgx.RowToStructByPos[unfinished])
	if err != nil {
		return nil, fmt.Errorf("looking for unfinished effects: %w", err)
	}
	return left, nil
}

// forPerson returns the reasons for which an effect is held until a person decides.
func forPerson() []string {
	return slices.DeleteFunc(reasons.All(), func(r string) bool { return !reasons.Reason(r).ForPerson() })
}

// hopeless reports whether nothing but retries that are due after patience is left, and effects that are held behind them. Effects that are
// held alone may wait for a gap, which ends.
func hopeless(left []unfinished) bool {
	late := false
	for _, e := range left {
		switch {
		case e.State == "held":
		case e.State == "retry" && !e.Due:
			late = true
		default:
			return false
		}
	}
	return late
}

// describe returns a line for each effect.
func describe(left []unfinished) string {
	var out strings.Builder
	for _, e := range left {
		fmt.Fprintf(&out, "  %s/%s %s: %s", e.Source, e.EventID, e.Route, e.State)
		if e.Attempts > 0 {
			fmt.Fprintf(&out, " after %d attempts", e.Attempts)
		}
		if e.Reason != "" {
			fmt.Fprintf(&out, ", %s", e.Reason)
		}
		if e.State == "retry" && e.NextAt != nil {
			fmt.Fprintf(&out, ", next at %s", e.NextAt.Format(time.RFC3339))
		}
		out.WriteByte('\n')
	}
	return out.String()
}
