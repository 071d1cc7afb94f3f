package labels

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// moveTaken moves the batches in taken into the index.
const moveTaken = `
gone AS (
    DELETE FROM event_label_batch b USING taken t WHERE b.id = t.id RETURNING b.event_id, b.name, b.value, b.secret_id),
moved AS (
    INSERT INTO event_label (event_id, name, value, secret_id)
    SELECT k.event_id, k.name, k.value, g.secret_id
    FROM gone g CROSS JOIN LATERAL unnest(g.event_id, g.name, g.value) AS k (event_id, name, value)`

// leaveOut skips labels that are already in the index. Without it, such a label would make the statement fail each time.
const leaveOut = `
    ON CONFLICT ON CONSTRAINT event_label_pkey DO NOTHING)`

const (
	// moveNext takes the oldest batches that no other transaction has locked. repeatNext also checks whether the index already has each label,
	// which makes the statement a quarter more expensive. It is used only after moveNext failed because of such a label.
	moveNext   = takeNext + moveTaken + `)` + countTaken
	repeatNext = takeNext + moveTaken + leaveOut + countTaken

	takeNext = `
WITH taken AS MATERIALIZED (SELECT b.id FROM event_label_batch b ORDER BY b.id LIMIT $1 FOR UPDATE SKIP LOCKED),`
	countTaken = `
SELECT count(*), (SELECT t.id FROM taken t ORDER BY t.id LIMIT 1) FROM taken`

	// moveBefore waits for batches that another transaction has locked, so that the index has all labels when no batch is left. It reports a
	// batch that was moved while it waited as still present, and the caller then runs it again.
	moveBefore = `
WITH taken AS MATERIALIZED (SELECT b.id FROM event_label_batch b WHERE b.id < $1::uuid ORDER BY b.id LIMIT $2 FOR UPDATE),` + moveTaken + leaveOut + `
SELECT EXISTS (SELECT FROM event_label_batch b WHERE b.id < $1::uuid)`

	moveEvents = `
WITH taken AS MATERIALIZED (SELECT b.id FROM event_label_batch b WHERE b.event_id && $1::uuid[] ORDER BY b.id FOR UPDATE),` + moveTaken + leaveOut + `
SELECT count(*) FROM taken`
)

// moveBatches is how many batches one transaction moves. A batch has the labels of at most one group of the gate.
const moveBatches = 64

// Querier is a connection, a pool, or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// MoveAll moves all labels that are not indexed yet.
func MoveAll(ctx context.Context, db Querier) error {
	return MoveBefore(ctx, db, inbox.ID(slices.Repeat([]byte{0xff}, len(inbox.ID{}))))
}

// MoveBefore indexes all labels of events before an ID, and some of later events. It waits for batches that another transaction has locked. It
// runs one statement for each page.
func MoveBefore(ctx context.Context, db Querier, before inbox.ID) error {
	for waiting := true; waiting; {
		if err := db.QueryRow(ctx, moveBefore, before, moveBatches).Scan(&waiting); err != nil {
			return fmt.Errorf("moving labels into their index: %w", err)
		}
	}
	return nil
}

// MoveEvents indexes all labels of the events, and of those that were committed with them. In a transaction, later statements find
// all labels of the events in event_label, including labels that another transaction has moved at the same time.
func MoveEvents(ctx context.Context, tx Querier, events []inbox.ID) error {
	var n int
	if err := tx.QueryRow(ctx, moveEvents, events).Scan(&n); err != nil {
		return fmt.Errorf("moving the labels of events into their index: %w", err)
	}
	return nil
}
