package relay

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Rows are taken in the order of their ids, which is not that of their commits:
// what commits late is found by the next run, which starts from the front. The sizes
// are read without the payloads; the first row is taken whatever its size, and one
// that is too large for any process is taken without its payload.
const takeOutbox = `
WITH taken AS MATERIALIZED (
    SELECT id, octet_length(payload) AS bytes
    FROM outbox
    WHERE id > $1 AND source = ANY ($2::text[]) AND NOT ordered AND refused_at IS NULL
    ORDER BY id
    LIMIT $3
    FOR UPDATE SKIP LOCKED),
sized AS (
    SELECT id, bytes, sum(bytes) OVER (ORDER BY id) - bytes AS before FROM taken)
SELECT o.id, o.source, o.event_id, o.type, CASE WHEN s.bytes <= $5 THEN o.payload END, s.bytes, o.created_at
FROM sized s JOIN outbox o ON o.id = s.id
WHERE s.before = 0 OR s.before + s.bytes <= $4
ORDER BY o.id`

const deleteOutbox = `DELETE FROM outbox WHERE id = ANY ($1::bigint[])`

// mostEmitted is the largest payload that is relayed, in bytes: the most that
// source.emit_limit may be.
const maxPayload = 64 << 20

type outboxRow struct {
	ID        int64
	Source    string
	EventID   string
	Type      string
	Payload   []byte
	Bytes     int
	CreatedAt time.Time
}

// batch admits and deletes the rows after last. The rows are locked meanwhile, so
// that no other relay takes them; should the lock be lost, the gate still admits
// each once.
func (r *Relay) relayBatch(ctx context.Context, last *int64) (seen, deleted int, err error) {
	err = pgx.BeginFunc(ctx, r.cfg.Pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, takeOutbox, *last, r.names, r.cfg.Batch, r.cfg.Bytes, maxPayload)
		if err != nil {
			return err
		}
		taken, err := pgx.CollectRows(rows, pgx.RowToStructByPos[outboxRow])
		if err != nil || len(taken) == 0 {
			return err
		}
		seen, *last = len(taken), taken[len(taken)-1].ID
		if taken, err = r.refuseTx(ctx, tx, taken); err != nil {
			return err
		}
		admitted := r.admit(ctx, taken)
		if len(admitted) == 0 {
			return nil
		}
		if _, err := tx.Exec(ctx, deleteOutbox, admitted); err != nil {
			return err
		}
		deleted = len(admitted)
		return nil
	})
	if err != nil {
		deleted = 0
	}
	return seen, deleted, err
}

// admit takes the rows to the gate all at once, so that they become one group,
// and gives the ids of those that are recorded now.
func (r *Relay) admit(ctx context.Context, rows []outboxRow) []int64 {
	receipts, errs := make([]inbox.Receipt, len(rows)), make([]error, len(rows))
	now := r.cfg.Clock.Now()
	var all sync.WaitGroup
	for i := range rows {
		a := r.admission(rows[i:i+1], now.Add(time.Duration(i)*time.Microsecond))
		all.Go(func() { receipts[i], errs[i] = r.cfg.Gate.Accept(ctx, a) })
	}
	all.Wait()
	admitted := make([]int64, 0, len(rows))
	var failure error
	for i := range rows {
		if errs[i] != nil || len(receipts[i].Items) != 1 {
			r.failed.Add(1)
			failure = cmp.Or(failure, errs[i])
			continue
		}
		admitted = append(admitted, rows[i].ID)
		r.count(ctx, &rows[i], &receipts[i].Items[0])
	}
	if failure != nil {
		r.logLeft(ctx, len(rows)-len(admitted), failure)
	}
	return admitted
}

func (r *Relay) logLeft(ctx context.Context, events int, err error) {
	r.cfg.Logger.WarnContext(ctx, "emitted events left in the outbox", slog.Int("events", events), slog.String("error", row.ErrorText(err)))
}

// admission is a delivery of the rows, which are of one source: the payload itself of
// a single one, else the payloads as a JSON array.
func (r *Relay) admission(rows []outboxRow, at time.Time) *inbox.Admission {
	a := &inbox.Admission{
		Source: r.cfg.Sources[rows[0].Source], Headers: []byte(`{"Content-Type":["application/json"]}`), ReceivedAt: at,
		Events: make([]inbox.NewEvent, len(rows)),
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
