package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// violation is one way in which the promise was broken.
type violation string

const readApplied = `SELECT key, number FROM order_applied ORDER BY key, place`

const readUnsettled = `
SELECT split_part(v.event_id, '_', 2), split_part(v.event_id, '_', 3)::bigint, e.state || coalesce(' ' || e.reason, '')
FROM effect e JOIN inbox_event v ON v.id = e.event_id
WHERE e.state NOT IN ('done', 'superseded', 'skipped', 'duplicate')
ORDER BY 1, 2`

const countAttempts = `SELECT count(*) FROM effect_attempt WHERE outcome <> 'skipped'`

// check compares what was applied with what was delivered.
func (c *campaign) check(ctx context.Context, r *result) error {
	applied, err := c.appliedNumbers(ctx)
	if err != nil {
		return fmt.Errorf("reading what was applied: %w", err)
	}
	for _, numbers := range applied {
		r.applied += uint64(len(numbers))
	}
	rows, err := c.db.Query(ctx, readUnsettled)
	if err != nil {
		return fmt.Errorf("reading what is left: %w", err)
	}
	var key, state string
	var number int
	if _, err := pgx.ForEachRow(rows, []any{&key, &number, &state}, func() error {
		r.violations = append(r.violations, violation(fmt.Sprintf("stuck: %s/%d is %s", key, number, state)))
		r.stuck++
		return nil
	}); err != nil {
		return fmt.Errorf("reading what is left: %w", err)
	}
	if err := c.db.QueryRow(ctx, countAttempts).Scan(&r.attempts); err != nil {
		return fmt.Errorf("counting attempts: %w", err)
	}
	for k := range c.sequences() {
		name := "k" + strconv.Itoa(k)
		want := c.expectedNumbers()
		if c.variant.latest { // any of them, and the last one
			want = slices.Compact(slices.Sorted(slices.Values(append(want[len(want)-1:], applied[name]...))))
		}
		r.violations = append(r.violations, compareSequence(name, want, applied[name])...)
		delete(applied, name)
	}
	for k := range c.blockedKeys() {
		name := blockedPrefix + strconv.Itoa(k)
		want := c.expectedNumbers()[1:blockedLength] // the first one is given up
		r.violations = append(r.violations, compareSequence(name, want, applied[name])...)
		delete(applied, name)
	}
	if c.variant.mixed {
		want := make([]int, c.unorderedEvents())
		for i := range want {
			want[i] = i + 1
		}
		slices.Sort(applied[unordered])
		r.violations = append(r.violations, compareSequence(unordered, want, applied[unordered])...)
		delete(applied, unordered)
	}
	for name := range applied {
		r.violations = append(r.violations, violation("unexpected: "+name+" was never delivered"))
	}
	if r.deadlocks > 0 {
		r.violations = append(r.violations, violation(fmt.Sprintf("deadlocked: %d times", r.deadlocks)))
	}
	if r.heldRunnable > 0 {
		r.violations = append(r.violations, violation(fmt.Sprintf("forgotten: %g held effects were found runnable", r.heldRunnable)))
	}
	switch {
	case c.variant.arrival:
		return c.checkClocks(ctx, r)
	case c.variant.fair, c.variant.latest:
		return c.checkPlaces(ctx, r)
	case c.variant.jump:
		return c.checkJump(ctx, r)
	}
	return nil
}

// appliedNumbers returns the numbers of each key in the order in which the target applied them.
func (c *campaign) appliedNumbers(ctx context.Context) (map[string][]int, error) {
	applied := map[string][]int{}
	if c.external != nil {
		c.external.mu.Lock()
		defer c.external.mu.Unlock()
		for key, numbers := range c.external.applied {
			applied[key] = slices.Clone(numbers)
		}
		return applied, c.external.err
	}
	rows, err := c.db.Query(ctx, readApplied)
	if err != nil {
		return nil, err
	}
	var key string
	var number int
	_, err = pgx.ForEachRow(rows, []any{&key, &number}, func() error {
		applied[key] = append(applied[key], number)
		return nil
	})
	return applied, err
}

// expectedNumbers returns the numbers of every sequence that have to be applied.
func (c *campaign) expectedNumbers() []int {
	var out []int
	for n := 1; n <= c.eventsPerSequence(); n++ {
		if c.variant.takes(n) {
			out = append(out, n)
		}
	}
	return out
}

// compareSequence returns the differences between the wanted and the applied numbers of a sequence.
func compareSequence(key string, want, got []int) []violation {
	var out []violation
	seen, last := map[int]int{}, 0
	for _, n := range got {
		if seen[n]++; seen[n] == 2 {
			out = append(out, violation(fmt.Sprintf("doubled: %s/%d", key, n)))
		}
		if n < last {
			out = append(out, violation(fmt.Sprintf("disordered: %s/%d was applied after %d", key, n, last)))
		}
		last = max(last, n)
	}
	for _, n := range want {
		if seen[n] == 0 {
			out = append(out, violation(fmt.Sprintf("lost: %s/%d was not applied", key, n)))
		}
		delete(seen, n)
	}
	for n := range seen {
		out = append(out, violation(fmt.Sprintf("unexpected: %s/%d was not to be applied", key, n)))
	}
	return out
}

// heldRunnable sums how many held effects the living workers have found that could have run.
func (c *campaign) heldRunnable(ctx context.Context) (float64, error) {
	sum := 0.0
	for _, worker := range c.workers {
		metrics, err := worker.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		sum += metrics["oncegate_order_held_runnable_total"]
	}
	return sum, nil
}
