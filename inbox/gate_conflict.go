package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// maxPaths bounds what a conflict records of the differences.
const maxPaths = 20

// The bytes of the first delivery, if they have not been pruned or erased.
const readFirst = `
SELECT e.canonical_sha256, e.body_offset, e.body_length, e.body_id, b.key_id, b.body
FROM inbox_event e LEFT JOIN inbox_body b ON b.class = e.class AND b.id = e.body_id
WHERE e.id = $1`

// The first delivery stays; what came later is only described. One row, by
// primary key, in a transaction of its own.
const recordConflict = `
WITH marked AS (
    UPDATE inbox_event SET conflicts = conflicts + 1, conflict_at = now(), conflict_sha256 = $2, conflict_paths = $3
    WHERE id = $1 RETURNING id, conflicts)
INSERT INTO audit (id, actor, action, object, after)
SELECT $4, 'gate', 'conflict', 'event/' || id, jsonb_build_object('sha256', encode($2, 'hex'), 'paths', $3::text[], 'conflicts', conflicts)
FROM marked`

// settleConflict decides about a delivery whose key was recorded with other
// bytes: after the commit, outside the group, a few at a time. The same
// canonical payload is a duplicate; anything else is a conflict.
func (g *Gate) settleConflict(ctx context.Context, e *entry, out *ItemReceipt) error {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Deadline)
	defer cancel()
	select {
	case g.compare <- struct{}{}:
		defer func() { <-g.compare }()
	case <-ctx.Done():
		return fmt.Errorf("%w: comparing %s/%s: too many conflicts at once", ErrUnavailable, e.source().Name, e.eventID)
	}
	same, paths, err := g.compareFirst(ctx, e)
	if err == nil && !same {
		_, err = g.cfg.Pool.Exec(ctx, recordConflict, e.row, e.sha[:], paths, NewID(g.cfg.Clock.Now()))
		out.Outcome, out.Paths = Conflict, paths
	}
	if err != nil {
		return fmt.Errorf("%w: comparing %s/%s: %s", ErrUnavailable, e.source().Name, e.eventID, sanitized(err))
	}
	return nil
}

func (g *Gate) compareFirst(ctx context.Context, e *entry) (same bool, paths []string, err error) {
	source, event := e.source(), e.event()
	other := e.delivery.admission.Body[event.Offset : event.Offset+event.Length]
	var (
		canonical, body []byte
		offset, length  int
		bodyID          ID
		keyID           *int32
	)
	err = g.cfg.Pool.QueryRow(ctx, readFirst, e.row).Scan(&canonical, &offset, &length, &bodyID, &keyID, &body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil, errors.New("the event went while it was compared")
	case err != nil:
		return false, nil, err
	}
	if canonical != nil && bytes.Equal(canonical, e.canonical) {
		return true, nil, nil
	}
	// Of a body whose key is lost, open gives none: it counts as pruned.
	if body, _ = g.cfg.Keyring.Open(bodyPlace(bodyID), keyID, body); body == nil || source.Canonical == nil {
		return false, []string{}, nil // the first body is pruned, or has no form to compare
	}
	first := body[offset : offset+length]
	a, okA := source.Canonical(first)
	b, okB := source.Canonical(other)
	if okA && okB && bytes.Equal(a, b) {
		return true, nil, nil
	}
	paths = []string{}
	if source.Differences != nil && okA && okB {
		paths = source.Differences(first, other)
	}
	return false, paths[:min(len(paths), maxPaths)], nil
}
