package refusal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// recountAfter is how long a writer trusts its count of a source's refusals, because other nodes write to the same
// source.
const recountAfter = time.Minute

// shelf is a set of refusals with separate limits: the whole refusals of a source, or its samples.
type shelf struct {
	source int32
	whole  bool
}

// shelfSize is the writer's estimate of a shelf's contents.
type shelfSize struct {
	rows, bytes int64
	countedAt   time.Time
}

func (r *Store) write(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	batch := make([]Refusal, 0, batchRows)
	for first := range r.queue {
		batch = append(batch[:0], first)
	gather:
		for len(batch) < batchRows {
			select {
			case next, open := <-r.queue:
				if !open {
					break gather
				}
				batch = append(batch, next)
			default:
				break gather
			}
		}
		r.flush(ctx, batch)
		r.release(batch)
		clear(batch)
	}
}

func (r *Store) flush(ctx context.Context, batch []Refusal) {
	for i := range batch {
		batch[i].diagnose(r.cfg.Logger)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := r.insert(ctx, batch); err != nil {
		r.failed.Add(uint64(len(batch)))
		r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "refusals not written", slog.Int("rows", len(batch)), slog.Any("error", err))
		return
	}
	r.written.Add(uint64(len(batch)))
	if err := r.evict(ctx, batch); err != nil {
		r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "refusals not evicted", slog.Any("error", err))
	}
}

// diagnose makes the diagnosis of one refusal. A panic in it loses the diagnosis but does not end the writer, because
// the request that provokes it came from outside.
func (r *Refusal) diagnose(logger *slog.Logger) {
	if r.Diagnose == nil {
		return
	}
	defer func() {
		if recover() != nil {
			logger.LogAttrs(context.Background(), slog.LevelError, "diagnosis panicked", slog.Int("source_id", int(r.SourceID)))
		}
	}()
	finding, found := r.Diagnose(r.Body)
	r.finding = storable(finding, 64)
	if found != "" && r.Diagnosis != "" {
		found = r.Diagnosis + "; " + found
	}
	if found != "" {
		r.Diagnosis = storable(found, 1024)
	}
}

// One statement for a batch: refusals come in floods.
var insertRefusals = `
INSERT INTO refusal (` + refusalColumns.Names() + `)
SELECT * FROM unnest(` + refusalColumns.Arrays() + `)`

// refusalRow is the database row of a refusal. Its headers and body are sealed if there is a keyring.
type refusalRow struct {
	*Refusal
	id            inbox.ID
	headers, body []byte // of whole refusals
	keyID         *int32
}

var refusalColumns = row.ColumnsFrom(1,
	row.UUID("id", func(r *refusalRow) inbox.ID { return r.id }),
	row.Int("source_id", func(r *refusalRow) int32 { return r.SourceID }),
	row.Time("received_at", func(r *refusalRow) time.Time { return r.ReceivedAt }),
	row.Text("cause", func(r *refusalRow) string { return r.Cause }),
	row.Text("diagnosis", func(r *refusalRow) string { return r.Diagnosis }),
	row.Bool("whole", func(r *refusalRow) bool { return r.Whole }),
	row.Text("method", func(r *refusalRow) string { return r.Method }),
	row.Text("url", func(r *refusalRow) string { return r.URL }),
	row.Text("remote", func(r *refusalRow) string { return r.Remote }),
	row.Bytes("headers", func(r *refusalRow) []byte { return r.headers }),
	row.Bytes("body", func(r *refusalRow) []byte { return r.body }),
	row.Int("size", func(r *refusalRow) int32 { return int32(r.size) }),
	row.Int("key_id", func(r *refusalRow) *int32 { return r.keyID }),
	row.Text("peer", func(r *refusalRow) string { return r.peer }),
	row.Text("finding", func(r *refusalRow) string { return r.finding }),
)

func (r *Store) insert(ctx context.Context, batch []Refusal) error {
	rows := make([]refusalRow, len(batch))
	for i := range batch {
		refusal, written := &batch[i], &rows[i]
		written.Refusal, written.id = refusal, inbox.NewID(refusal.ReceivedAt)
		if refusal.Whole {
			written.headers, written.body, written.keyID = place.SealRefusal(r.cfg.Keyring, written.id, refusal.Headers, refusal.Body)
		}
	}
	if _, err := r.cfg.Pool.Exec(ctx, insertRefusals, refusalColumns.Args(rows)...); err != nil {
		return fmt.Errorf("writing %d refusals: %w", len(batch), err)
	}
	return nil
}

// evict keeps every shelf that the batch filled within its limits. Counting a shelf reads all of it, so it is counted
// only when the writer believes that it is full, and then emptied a little further than necessary.
func (r *Store) evict(ctx context.Context, batch []Refusal) error {
	var errs []error
	now := r.cfg.Now()
	touched := make(map[shelf]bool, 4)
	for i := range batch {
		shelf := shelf{source: batch[i].SourceID, whole: batch[i].Whole}
		touched[shelf] = true
		if fill := r.fill[shelf]; fill != nil {
			fill.rows++
			fill.bytes += int64(len(batch[i].Body) + len(batch[i].Headers))
		}
	}
	for shelf := range touched {
		fill := r.fill[shelf]
		rows, bytes := r.limits(shelf)
		if fill != nil && fill.rows <= rows && fill.bytes <= bytes && now.Sub(fill.countedAt) < recountAfter {
			continue
		}
		if fill == nil {
			fill = new(shelfSize)
		}
		if err := r.evictShelf(ctx, shelf, fill); err != nil {
			errs = append(errs, err)
			continue
		}
		fill.countedAt = now
		r.fill[shelf] = fill
	}
	return errors.Join(errs...)
}

func (r *Store) limits(shelf shelf) (rows, bytes int64) {
	if shelf.whole {
		return int64(r.cfg.MaxRows), r.cfg.MaxBytes
	}
	return int64(r.cfg.MaxSamples), r.cfg.MaxBytes
}

// The rows to remove so that the even shares are kept. The cost of a row is its part of the limits: of the number of
// rows and of the bytes. Added up over the newest rows of a peer, then over the peers of a diagnosis, the cost is the
// depth of a row in the share of its diagnosis. The deepest rows are removed, regardless of their peer. A few rows of
// one peer are near the top, however many rows others have.
//
// The real limits ($3, $4) decide whether anything has to be removed, and slightly lower ones ($5, $6) decide how much,
// so that a full shelf is not counted again for every batch.
const findEvicted = `
WITH priced AS (
    SELECT id, cause, coalesce(finding, '') AS finding, coalesce(peer, remote) AS peer, content.bytes,
           1 / $3::float8 + content.bytes / $4::float8 AS cost
    FROM refusal, LATERAL (SELECT coalesce(octet_length(body), 0) + coalesce(octet_length(headers), 0) AS bytes) content
    WHERE source_id = $1 AND whole = $2
), by_peer AS (
    SELECT id, cause, finding, bytes, cost, sum(cost) OVER (PARTITION BY cause, finding, peer ORDER BY id DESC) AS depth
    FROM priced
), by_diagnosis AS (
    SELECT id, bytes, sum(cost) OVER (PARTITION BY cause, finding ORDER BY depth, id DESC) AS depth
    FROM by_peer
), kept AS (
    SELECT id, row_number() OVER fair AS n, sum(bytes) OVER fair AS total
    FROM by_diagnosis WINDOW fair AS (ORDER BY depth, id DESC)
), shelf AS (
    SELECT count(*) AS rows, coalesce(max(total), 0)::bigint AS bytes FROM kept
)
SELECT shelf.rows, shelf.bytes,
       ARRAY(SELECT id FROM kept WHERE (n > $5 OR total > $6) AND (shelf.rows > $3 OR shelf.bytes > $4) ORDER BY n DESC LIMIT $7)
FROM shelf`

// maxEvicted bounds one eviction. More rows are found only after a limit was lowered, and then removed with the next
// batches.
const maxEvicted = 5_000

// SKIP LOCKED: another node may be emptying the same shelf.
const evictRefusals = `
WITH evicted AS (
    DELETE FROM refusal WHERE id IN (
        SELECT id FROM refusal WHERE id = ANY ($1::uuid[])
        ORDER BY id FOR UPDATE SKIP LOCKED)
    RETURNING coalesce(octet_length(body), 0) + coalesce(octet_length(headers), 0) AS bytes
)
SELECT count(*), coalesce(sum(bytes), 0) FROM evicted`

func (r *Store) evictShelf(ctx context.Context, shelf shelf, fill *shelfSize) error {
	rows, bytes := r.limits(shelf)
	var over []inbox.ID
	err := r.cfg.Pool.QueryRow(ctx, findEvicted, shelf.source, shelf.whole, rows, bytes, rows-rows/20, bytes-bytes/20, maxEvicted).
		Scan(&fill.rows, &fill.bytes, &over)
	if err != nil {
		return fmt.Errorf("counting refusals of source %d: %w", shelf.source, err)
	}
	if len(over) == 0 {
		return nil
	}
	var gone, goneBytes int64
	if err := r.cfg.Pool.QueryRow(ctx, evictRefusals, over).Scan(&gone, &goneBytes); err != nil {
		return fmt.Errorf("evicting refusals of source %d: %w", shelf.source, err)
	}
	fill.rows -= gone
	fill.bytes -= goneBytes
	r.evicted.Add(uint64(gone))
	return nil
}
