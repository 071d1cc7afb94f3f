package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// defects change the tables as a wrong implementation would leave them. The servers continue from there, and each
// defect has to be noticed as its kind.
var defects = []struct {
	kind  rig.Kind
	query string
}{
	// A decision is forgotten.
	{overridden, `
UPDATE effect SET state = 'pending', finished_at = NULL, next_at = now(), reason = NULL, attempts = 0, version = version + 1
WHERE id IN (SELECT id FROM effect WHERE state = 'skipped' AND reason = 'discarded' AND sequence_key_hash IS NULL ORDER BY id DESC LIMIT 3)`},
	// An effect that may have happened is tried again.
	{doubled, `
UPDATE effect SET state = 'pending', next_at = now(), reason = NULL, attempts = 0, version = version + 1
WHERE id IN (SELECT id FROM effect WHERE state = 'indeterminate' AND sequence_key_hash IS NULL ORDER BY id DESC LIMIT 3)`},
	// An effect does not wait for its predecessor.
	{disordered, `
WITH next AS (
    SELECT e.route_id, e.sequence_key_hash, min(e.sequence_number) AS number
    FROM effect e JOIN route r ON r.id = e.route_id
    WHERE e.state = 'held' AND e.reason IS NULL AND r.name IN ('fulfil', 'ship') GROUP BY 1, 2),
passed AS (
    UPDATE stream s SET applied = next.number - 1, blocked_by = NULL, gap_since = NULL
    FROM next WHERE s.route_id = next.route_id AND s.key_hash = next.sequence_key_hash AND s.in_flight IS NULL RETURNING s.route_id, s.key_hash, next.number)
UPDATE effect e SET state = 'pending', next_at = now()
FROM passed p
WHERE e.route_id = p.route_id AND e.sequence_key_hash = p.key_hash AND e.sequence_number = p.number AND e.state = 'held'`},
	// The order key of an erased event stays.
	{keptOrderKey, `
UPDATE stream s SET key_label = 'order-1', key_label_sealed = NULL, key_label_key_id = NULL
FROM effect e JOIN inbox_event v ON v.id = e.event_id
WHERE v.class = 'erased' AND s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash`},
	// An event is lost.
	{lost, `
WITH gone AS (DELETE FROM inbox_event WHERE id = (SELECT id FROM inbox_event ORDER BY id DESC LIMIT 1) RETURNING id)
DELETE FROM effect e USING gone WHERE e.event_id = gone.id`},
	// An effect claims to have happened.
	{unexplained, `
UPDATE effect SET state = 'superseded', finished_at = now(), next_at = NULL, reason = 'sequence_late'
WHERE id IN (SELECT e.id FROM effect e JOIN route r ON r.id = e.route_id WHERE e.state = 'dead' AND r.name = 'notify' LIMIT 1)`},
}

// restoreErased restores the content of an erased event.
const restoreErased = `UPDATE inbox_event v SET admission_detail = $3 FROM source s WHERE s.id = v.source_id AND s.name = $1 AND v.event_id = $2`

// injectDefects plants all defects.
func (c *campaign) injectDefects(ctx context.Context) error {
	for _, w := range defects {
		if _, err := c.db.Exec(ctx, w.query); err != nil {
			return fmt.Errorf("being wrong (%s): %w", w.kind, err)
		}
	}
	for _, key := range sortedKeys(c.deliveries.events) {
		if e := c.deliveries.events[key]; len(e.erased) > 0 {
			if _, err := c.db.Exec(ctx, restoreErased, e.source, e.id, e.payloads[0].Marker); err != nil {
				return fmt.Errorf("being wrong (%s): %w", leaked, err)
			}
		}
	}
	return nil
}

// unnoticedDefects returns the kinds of defects that were not noticed.
func (c *campaign) unnoticedDefects() (out []rig.Kind) {
	kinds := []rig.Kind{leaked, stopped}
	for _, w := range defects {
		kinds = append(kinds, w.kind)
	}
	for _, kind := range kinds {
		if !slices.ContainsFunc(c.violations, func(v violation) bool { return v.Kind == kind }) {
			out = append(out, kind)
		}
	}
	return out
}
