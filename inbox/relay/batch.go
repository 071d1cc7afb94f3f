package relay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/advisory"
)

// sourceKey is the second key of a source's lock; $2 is its name.
const (
	sourceKey    = `hashtext(coalesce(current_schema(), '') || '/' || $2)`
	tryRelayLock = `SELECT pg_try_advisory_xact_lock($1::int, ` + sourceKey + `)`
)

// Rows are taken in the order of their positions, which is the order of commits for all rows that must be in order. The
// next pass begins at the front again, because a row can commit with a lower position than one that this pass has
// taken, if the two need not be in order. The sizes are read without the payloads. The first row is taken at any size;
// a row that is too large for any process is taken without its payload.
const takeOutbox = `
WITH taken AS MATERIALIZED (
    SELECT id, position, octet_length(payload) AS bytes
    FROM outbox
    WHERE source = $1 AND refused_at IS NULL AND ($2 = 0 OR (position, id) > ($3, $2))
    ORDER BY position, id
    LIMIT $4),
sized AS (
    SELECT id, position, bytes, sum(bytes) OVER (ORDER BY position, id) - bytes AS before FROM taken)
SELECT o.id, coalesce(o.position, 0), o.source, o.event_id, o.type, CASE WHEN s.bytes <= $6 THEN o.payload END, s.bytes, o.created_at, o.ordered
FROM sized s JOIN outbox o ON o.id = s.id
WHERE s.before = 0 OR s.before + s.bytes <= $5
ORDER BY s.position, s.id`

const deleteOutbox = `DELETE FROM outbox WHERE id = ANY ($1::bigint[])`

// maxPayload is the largest payload that is relayed, in bytes: the most that
// source.emit_limit may be.
const maxPayload = 64 << 20

type outboxRow struct {
	ID        int64
	Position  int64
	Source    string
	EventID   string
	Type      string
	Payload   []byte
	Bytes     int
	CreatedAt time.Time
	Ordered   bool
}

// sourcePass is what one pass knows of a source.
type sourcePass struct {
	source   string
	id       int64 // of the last row that was taken, 0 before the first
	position int64 // of that row

	// left are the ids of events that the gate did not take. Their later rows wait for the next pass, because they would
	// overtake.
	left map[string]bool
}

// maxLeft is how many events a pass skips before it leaves the rest of the source to the next pass.
const maxLeft = 10_000

// batch admits and deletes the next rows of a source. A lock keeps other relays from the source meanwhile. If the lock is lost
// with its connection, the gate still admits each row once, and in order: a relay passes a row to the gate only after the
// gate has taken the rows of the same event before it.
func (p *sourcePass) batch(ctx context.Context, r *Relay) (deleted int, more bool, err error) {
	err = pgx.BeginFunc(ctx, r.cfg.Pool, func(tx pgx.Tx) error {
		var obtained bool
		if err := tx.QueryRow(ctx, tryRelayLock, advisory.Relay, p.source).Scan(&obtained); err != nil {
			return err
		}
		if !obtained {
			r.tellHolder(ctx, tx, p.source)
			return nil
		}
		r.waiting.Delete(p.source)
		rows, err := tx.Query(ctx, takeOutbox, p.source, p.id, p.position, r.cfg.Batch, r.cfg.Bytes, maxPayload)
		if err != nil {
			return err
		}
		taken, err := pgx.CollectRows(rows, pgx.RowToStructByPos[outboxRow])
		if err != nil || len(taken) == 0 {
			return err
		}
		last := &taken[len(taken)-1]
		p.id, p.position = last.ID, last.Position
		ordered := slices.ContainsFunc(taken, func(o outboxRow) bool { return o.Ordered })
		if taken, err = r.refuseTx(ctx, tx, taken); err != nil {
			return err
		}
		more = true
		if len(taken) == 0 {
			return nil
		}
		var admitted []int64
		if ordered {
			admitted = r.admitArrival(ctx, taken)
			more = len(admitted) > 0
		} else {
			admitted = r.admitEach(ctx, taken, p.left)
			more = len(p.left) < maxLeft
		}
		if len(admitted) == 0 {
			return nil // what was refused stays refused
		}
		if _, err := tx.Exec(ctx, deleteOutbox, admitted); err != nil {
			return err
		}
		deleted = len(admitted)
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	return deleted, more, nil
}

// holderWorthTelling is how long a relay waits for a source before it logs which session has it. Another relay of ours
// has it for a batch.
const holderWorthTelling = 10 * time.Second

// sourceWait is a wait for the lock of a source.
type sourceWait struct{ since, told time.Time }

// tellHolder logs, once a minute, which session keeps this relay from a source.
func (r *Relay) tellHolder(ctx context.Context, tx pgx.Tx, source string) {
	now := r.cfg.Clock.Local()
	found, _ := r.waiting.LoadOrStore(source, sourceWait{since: now})
	wait := found.(sourceWait)
	if now.Sub(wait.since) < holderWorthTelling || now.Sub(wait.told) < time.Minute {
		return
	}
	wait.told = now
	r.waiting.Store(source, wait)
	attrs := []slog.Attr{slog.String("source", source), slog.Time("since", wait.since)}
	attrs = append(attrs, advisory.Holder(ctx, tx, advisory.Relay, sourceKey, source).Attrs()...)
	r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "another session has the lock of a source: its emitted events wait until that session ends, or you end it with pg_terminate_backend", attrs...)
}

// admitEach passes the rows to the gate all at once, so that they become one group, and returns the ids of those that
// are recorded now. The rows of one event are one delivery, in which the first is recorded and the others are its
// duplicates and conflicts.
func (r *Relay) admitEach(ctx context.Context, rows []outboxRow, left map[string]bool) []int64 {
	var deliveries [][]outboxRow
	place := make(map[string]int, len(rows))
	for _, row := range rows {
		if left[row.EventID] {
			continue
		}
		at, ok := place[row.EventID]
		if !ok {
			at = len(deliveries)
			place[row.EventID], deliveries = at, append(deliveries, nil)
		}
		deliveries[at] = append(deliveries[at], row)
	}
	receipts, errs := make([]inbox.Receipt, len(deliveries)), make([]error, len(deliveries))
	now := r.cfg.Clock.Now()
	var all sync.WaitGroup
	for i, d := range deliveries {
		a := r.admission(d, now.Add(time.Duration(i)*time.Microsecond))
		all.Go(func() { receipts[i], errs[i] = r.accept(ctx, a) })
	}
	all.Wait()
	admitted := make([]int64, 0, len(rows))
	var failure error
	for i, d := range deliveries {
		if errs[i] != nil {
			left[d[0].EventID] = true
			failure = cmp.Or(failure, errs[i])
			continue
		}
		admitted = r.counted(ctx, admitted, d, &receipts[i])
	}
	if failure != nil {
		r.logLeft(ctx, len(rows)-len(admitted), failure)
	}
	return admitted
}

// accept passes the delivery to the gate, and fails unless the gate answers for each of its events.
func (r *Relay) accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	receipt, err := r.cfg.Gate.Accept(ctx, a)
	if err == nil && len(receipt.Items) != len(a.Events) {
		err = errors.New("the gate did not answer for every event")
	}
	return receipt, err
}

func (r *Relay) counted(ctx context.Context, ids []int64, rows []outboxRow, receipt *inbox.Receipt) []int64 {
	for i := range rows {
		ids = append(ids, rows[i].ID)
		r.count(ctx, &rows[i], &receipt.Items[i])
	}
	return ids
}

func (r *Relay) logLeft(ctx context.Context, events int, err error) {
	r.failed.Add(uint64(events))
	r.cfg.Logger.WarnContext(ctx, "emitted events left in the outbox", slog.Int("events", events), slog.String("error", row.ErrorText(err)))
}

// admission is a delivery of the rows, which are of one source: the payload itself of
// a single one, else the payloads as a JSON array.
func (r *Relay) admission(rows []outboxRow, at time.Time) *inbox.Admission {
	a := &inbox.Admission{
		Source: r.cfg.Sources[rows[0].Source], Headers: []byte(`{"Content-Type":["application/json"]}`), ReceivedAt: at,
		Emitted: true, Events: make([]inbox.NewEvent, len(rows)),
	}
	for i := range rows {
		row := &rows[i]
		a.Events[i] = inbox.NewEvent{EventID: row.EventID, Type: row.Type, OccurredAt: row.CreatedAt, Length: len(row.Payload)}
		if len(rows) == 1 {
			a.Body = row.Payload
			continue
		}
		a.Body = append(a.Body, "[,"[min(i, 1)])
		a.Events[i].Offset = len(a.Body)
		a.Body = append(a.Body, row.Payload...)
	}
	if len(rows) > 1 {
		a.Body = append(a.Body, ']')
	}
	return a
}
