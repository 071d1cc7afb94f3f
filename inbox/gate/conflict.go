package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// The limits of the recorded differences of a conflict: the number of paths, and the bytes of each. The names of
// members come from outside.
const (
	maxPaths = 20
	maxPath  = 256
)

// The bytes of the first delivery, if they have not been pruned or erased.
const readFirst = `
SELECT e.canonical_sha256, e.body_offset, e.body_length, e.body_id, b.key_id, b.body
FROM inbox_event e LEFT JOIN inbox_body b ON b.class = e.class AND b.id = e.body_id
WHERE e.id = $1`

// The event keeps its first payload. The statement locks the event's row, so that payloads that conflict with one event
// are kept one after the other. The first conflict of an event in an hour is audited, with the number of conflicts
// until then. The event only counts the others, and their payloads have separate rows: otherwise a sender whose
// payloads drift would fill the disk.
const recordConflict = `
WITH before AS MATERIALIZED (
    SELECT id, conflict_at FROM inbox_event WHERE id = $1 FOR UPDATE),
marked AS (
    UPDATE inbox_event e SET conflicts = e.conflicts + 1, conflict_at = now(), conflict_sha256 = $2, conflict_paths = $3
    FROM before b WHERE e.id = b.id
    RETURNING e.id, e.conflicts, b.conflict_at AS last),
audited AS (
    INSERT INTO audit (id, actor, action, object, after)
    SELECT $4, 'gate', 'conflict', 'event/' || id, jsonb_build_object('sha256', encode($2, 'hex'), 'paths', $3::text[], 'conflicts', conflicts)
    FROM marked
    WHERE last IS NULL OR date_bin('1 hour', last, 'epoch') <> date_bin('1 hour', now(), 'epoch'))
SELECT count(*) FROM marked`

// settleConflict decides about a delivery whose key was recorded with other bytes: after the commit, outside the group,
// a few at a time. The same canonical payload is a duplicate; any other is a conflict, whose payload is kept before it
// is acknowledged.
func (g *Gate) settleConflict(ctx context.Context, e *entry, out *inbox.ItemReceipt) error {
	within := g.cfg.Deadline // of a batch, each conflict has its own
	if d := e.delivery; len(d.entries) == 1 {
		within = g.timeLeft(d)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case g.compare <- struct{}{}:
		defer func() { <-g.compare }()
	case <-ctx.Done():
		return fmt.Errorf("%w: comparing %s/%s: too many conflicts at once", ErrUnavailable, e.source().Name, e.eventID)
	}
	c, err := g.compareFirst(ctx, e)
	if err != nil {
		return fmt.Errorf("%w: comparing %s/%s: %s", ErrUnavailable, e.source().Name, e.eventID, row.ErrorText(err))
	}
	if c == nil {
		return nil
	}
	if err := g.keepConflict(ctx, e, c); err != nil {
		return fmt.Errorf("%w: keeping the conflicting payload of %s/%s: %s", ErrUnavailable, e.source().Name, e.eventID, row.ErrorText(err))
	}
	out.Outcome, out.Paths, out.Original, out.OriginalGone = inbox.Conflict, c.paths, c.original, c.gone
	return nil
}

// leaveUnsettled clears the outcome of the events from index from on for which it was not decided whether they are
// duplicates or conflicts.
func (d *delivery) leaveUnsettled(from int) {
	for i := from; i < len(d.entries); i++ {
		if d.entries[i].differs {
			d.receipt.Items[i].Outcome = ""
		}
	}
}

// conflictingPayload is a payload that differs from the recorded one.
type conflictingPayload struct {
	body  []byte
	sum   [sha256.Size]byte // of the canonical form, or of the bytes where there is none
	paths []string

	// original is the canonical form of the recorded payload, and gone says why it cannot be shown. They are set only
	// for operations.
	original []byte
	gone     inbox.OriginalGone
}

// compareFirst compares the entry with the event that was recorded under its key.
// It returns nil if the payloads are the same.
func (g *Gate) compareFirst(ctx context.Context, e *entry) (*conflictingPayload, error) {
	source, event := e.source(), e.event()
	other := &conflictingPayload{body: e.delivery.admission.Body[event.Offset : event.Offset+event.Length], sum: e.sha, paths: []string{}}
	var (
		canonical, body []byte
		offset, length  int
		bodyID          inbox.ID
		keyID           *int32
	)
	err := g.cfg.Pool.QueryRow(ctx, readFirst, e.row).Scan(&canonical, &offset, &length, &bodyID, &keyID, &body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errors.New("the event was removed while it was compared")
	case err != nil:
		return nil, err
	}
	comparison := source.Comparison(event.Type)
	if source.Strict && comparison.Recognizes(canonical, other.body) {
		return nil, nil
	}
	if comparison.Canonical == nil {
		other.gone = inbox.OriginalNotJSON
		return other, nil
	}
	b, okB := comparison.Canonical(other.body)
	if okB {
		other.sum = sha256.Sum256(b)
	}
	// A body under a lost key counts as pruned, because nothing can be compared.
	pruned := body == nil
	if body, _ = g.cfg.Keyring.Open(place.Body(bodyID), keyID, body); body == nil {
		other.gone = inbox.OriginalSealed
		if pruned {
			other.gone = inbox.OriginalPruned
		}
		return other, nil
	}
	first := body[offset : offset+length]
	a, okA := comparison.Canonical(first)
	if okA && okB && bytes.Equal(a, b) {
		return nil, nil
	}
	if comparison.Differences != nil && okA && okB {
		for _, path := range comparison.Differences(first, other.body) {
			if len(other.paths) == maxPaths {
				break
			}
			other.paths = append(other.paths, pgtext.Clean(path, maxPath))
		}
	}
	if source.Strict {
		other.show(source, a, okA)
	}
	return other, nil
}

// show sets the recorded payload that the caller sees, without the parts that the source hides.
func (c *conflictingPayload) show(source *inbox.Source, original []byte, json bool) {
	if json && source.Shown != nil {
		original, json = source.Shown(original)
	}
	switch {
	case !json:
		c.gone = inbox.OriginalNotJSON
	case len(original) > inbox.MaxOriginal:
		c.gone = inbox.OriginalTooLarge
	default:
		c.original = original
	}
}
