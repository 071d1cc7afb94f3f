package labels

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// The batches that a statement has taken become rows of the index.
const moveTaken = `
gone AS (
    DELETE FROM event_label_batch b USING taken t WHERE b.id = t.id RETURNING b.event_id, b.name, b.value, b.secret_id),
moved AS (
    INSERT INTO event_label (event_id, name, value, secret_id)
    SELECT k.event_id, k.name, k.value, g.secret_id
    FROM gone g CROSS JOIN LATERAL unnest(g.event_id, g.name, g.value) AS k (event_id, name, value)`

// leaveOut skips a label that the index already has. Without it the statement would fail each time, and its batches would never
// be moved.
const leaveOut = `
    ON CONFLICT ON CONSTRAINT event_label_pkey DO NOTHING)`

const (
	// The oldest first, without those that somebody else moves. To look for each label first makes the statement a quarter more expensive, so that
	// it is only done when one was there.
	moveNext   = takeNext + moveTaken + `)` + countTaken
	repeatNext = takeNext + moveTaken + leaveOut + countTaken

	takeNext = `
WITH taken AS MATERIALIZED (SELECT b.id FROM event_label_batch b ORDER BY b.id LIMIT $1 FOR UPDATE SKIP LOCKED),`
	countTaken = `
SELECT count(*), (SELECT t.id FROM taken t ORDER BY t.id LIMIT 1) FROM taken`

	// What somebody else moves is waited for: when none is left, the index has them all. A batch that was moved while it was
	// waited for counts as one that was there, so that another look follows.
	moveBefore = `
WITH taken AS MATERIALIZED (SELECT b.id FROM event_label_batch b WHERE b.id < $1::uuid ORDER BY b.id LIMIT $2 FOR UPDATE),` + moveTaken + leaveOut + `
SELECT EXISTS (SELECT FROM event_label_batch b WHERE b.id < $1::uuid)`

	moveEvents = `
WITH taken AS MATERIALIZED (SELECT b.id FROM event_label_batch b WHERE b.event_id && $1::uuid[] ORDER BY b.id FOR UPDATE),` + moveTaken + leaveOut + `
SELECT count(*) FROM taken`
)

// moveBatches is how many batches one transaction moves. A batch is at most a group of the gate, and mostly far less.
const moveBatches = 64

// Querier is a connection, a pool, or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// MoveAll moves all labels that wait.
func MoveAll(ctx context.Context, db Querier) error {
	return MoveBefore(ctx, db, inbox.ID(slices.Repeat([]byte{0xff}, len(inbox.ID{}))))
}

// MoveBefore moves the labels that wait of the events before an ID, and some of later events. It waits for those that somebody else moves. Each page is
// a statement of its own.
func MoveBefore(ctx context.Context, db Querier, before inbox.ID) error {
	for waiting := true; waiting; {
		if err := db.QueryRow(ctx, moveBefore, before, moveBatches).Scan(&waiting); err != nil {
			return fmt.Errorf("moving labels into their index: %w", err)
		}
	}
	return nil
}

// MoveEvents moves the labels that wait of some events, and of those that were committed with them. In a transaction, statements that follow
// find the labels of the events in event_label alone, also those that somebody else has moved meanwhile.
func MoveEvents(ctx context.Context, tx Querier, events []inbox.ID) error {
	var n int
	if err := tx.QueryRow(ctx, moveEvents, events).Scan(&n); err != nil {
		return fmt.Errorf("moving the labels of events into their index: %w", err)
	}
	return nil
}
