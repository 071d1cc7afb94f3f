package prune

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/sleep"
)

// hashedTable is a table with hashes of content. The form with a key is made of the stored hash, so the content is not needed.
type hashedTable struct {
	table string

	// page returns the ids of the next rows after $1, at most $2, and whether their hashes have no key.
	page string

	// lock, if not empty, locks the events of the rows $1, before the rows.
	lock string

	// read locks the rows $1 and returns the id and the hashes of those that have no key.
	read string

	// write are the statements that store the hashes of [keyedHashColumns], in this order.
	write []string
}

// keyedHash is the database row of two hashes that got a key. two may be nil, and old is one without its key.
type keyedHash struct {
	id            inbox.ID
	one, two, old []byte
}

var keyedHashColumns = row.ColumnsFrom(1,
	row.UUID("id", func(h *keyedHash) inbox.ID { return h.id }),
	row.Bytes("one", func(h *keyedHash) []byte { return h.one }),
	row.Bytes("two", func(h *keyedHash) []byte { return h.two }),
	row.Text("old_id", func(h *keyedHash) string { return inbox.UnusableID(h.old) }),
	row.Text("new_id", func(h *keyedHash) string { return inbox.UnusableID(h.one) }),
)

var keyedHashes = `unnest(` + keyedHashColumns.Arrays() + `) AS k (` + keyedHashColumns.Names() + `)`

var hashedTables = []hashedTable{
	{
		table: "inbox_event",
		page:  `SELECT id, octet_length(body_sha256) = 32 FROM inbox_event WHERE id > $1 ORDER BY id LIMIT $2`,
		// The order is that in which others lock several events.
		read: `
SELECT id, body_sha256, canonical_sha256 FROM inbox_event
WHERE id = ANY ($1::uuid[]) AND octet_length(body_sha256) = 32 ORDER BY id FOR NO KEY UPDATE`,
		// An unusable event has its hash in its id. If two processes recorded it, one with the keyring and one without it, the event
		// with the new id exists already. The other one cannot get the same id, so its id says of which event it is.
		write: []string{`
UPDATE inbox_event e SET body_sha256 = k.one, canonical_sha256 = k.two,
    event_id = CASE WHEN e.event_id <> k.old_id THEN e.event_id
        WHEN EXISTS (SELECT FROM inbox_event o WHERE o.source_id = e.source_id AND o.event_id = k.new_id) THEN k.new_id || '~' || e.id
        ELSE k.new_id END
FROM ` + keyedHashes + `
WHERE e.id = k.id`},
	},
	{
		table: "conflict",
		page:  `SELECT id, octet_length(payload_sha256) = 32 FROM conflict WHERE id > $1 ORDER BY id LIMIT $2`,
		// The gate keeps a payload while it has its event locked, and looks for it under both forms of its hash.
		lock: `
SELECT FROM inbox_event e
WHERE e.id IN (SELECT c.event_id FROM conflict c WHERE c.id = ANY ($1::uuid[])) ORDER BY e.id FOR NO KEY UPDATE`,
		read: `
SELECT id, payload_sha256, sha256 FROM conflict
WHERE id = ANY ($1::uuid[]) AND octet_length(payload_sha256) = 32 ORDER BY id FOR UPDATE`,
		// A process without the keyring keeps a payload again that one with the keyring has kept. One row of the two goes: the one that
		// was not admitted, and else the one without a key. The other one gets its count.
		write: []string{
			`
WITH gone AS (
    DELETE FROM conflict o USING ` + keyedHashes + `, conflict c
    WHERE c.id = k.id AND c.admitted_at IS NOT NULL AND o.event_id = c.event_id AND o.payload_sha256 = k.one AND o.admitted_at IS NULL
    RETURNING c.id, o.deliveries)
UPDATE conflict c SET deliveries = c.deliveries + g.deliveries FROM gone g WHERE c.id = g.id`,
			`
WITH gone AS (
    DELETE FROM conflict c USING ` + keyedHashes + `, conflict o
    WHERE c.id = k.id AND o.event_id = c.event_id AND o.payload_sha256 = k.one
    RETURNING o.id, c.deliveries, c.last_seen_at)
UPDATE conflict o SET deliveries = o.deliveries + g.deliveries, last_seen_at = greatest(o.last_seen_at, g.last_seen_at)
FROM gone g WHERE o.id = g.id`,
			`
UPDATE conflict c SET payload_sha256 = k.one, sha256 = k.two
FROM ` + keyedHashes + `
WHERE c.id = k.id`,
		},
	},
	{
		table: "operation_follow",
		page:  `SELECT child, octet_length(intent_hash) = 32 FROM operation_follow WHERE child > $1 ORDER BY child LIMIT $2`,
		read: `
SELECT child, intent_hash, NULL::bytea FROM operation_follow
WHERE child = ANY ($1::uuid[]) AND octet_length(intent_hash) = 32 ORDER BY child FOR UPDATE`,
		write: []string{`
UPDATE operation_follow f SET intent_hash = k.one
FROM ` + keyedHashes + `
WHERE f.child = k.id`},
	},
}

// keyHashes replaces the hashes of one table that have no key, page by page.
func (cfg *ResealConfig) keyHashes(ctx context.Context, t *hashedTable, p *ResealProgress) error {
	p.Table, p.Looked = t.table, 0
	after := inbox.ID{15: 1} // the zero ID is stored as NULL
	for {
		rows, err := cfg.Pool.Query(ctx, t.page, after, resealRows)
		if err != nil {
			return err
		}
		var due []inbox.ID
		var id inbox.ID
		var plain bool
		looked := 0
		_, err = pgx.ForEachRow(rows, []any{&id, &plain}, func() error {
			if after, looked = id, looked+1; plain {
				due = append(due, id)
			}
			return nil
		})
		if err != nil || looked == 0 {
			return err
		}
		if len(due) > 0 {
			if err := cfg.keyRows(ctx, func(tx pgx.Tx, secret inbox.InstallationSecret) error { return keyPage(ctx, tx, secret, t, due) }); err != nil {
				return err
			}
		}
		p.Looked += int64(looked)
		if cfg.Progress != nil {
			cfg.Progress(*p)
		}
		if err := sleep.For(ctx, cfg.Pause); err != nil {
			return err
		}
	}
}

// keyTries is how often a transaction is tried that others keep from its locks.
const keyTries = 5

// keyRows runs one transaction, again if it met others: its rows must not stay as they are.
func (cfg *ResealConfig) keyRows(ctx context.Context, run func(tx pgx.Tx, secret inbox.InstallationSecret) error) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, cfg.Pool, func(tx pgx.Tx) error {
			secret, err := inbox.InstallationSecretTx(ctx, tx, cfg.Keyring)
			if err != nil {
				return err
			}
			return run(tx, secret)
		})
		if err == nil || try == keyTries || !isLockConflict(err) && !isTaken(err) {
			return err
		}
	}
}

// isTaken reports whether another transaction has written the same value at the same moment.
func isTaken(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23505"
}

// keyPage replaces the hashes of some rows.
func keyPage(ctx context.Context, tx pgx.Tx, secret inbox.InstallationSecret, t *hashedTable, due []inbox.ID) error {
	if t.lock != "" {
		if _, err := tx.Exec(ctx, t.lock, due); err != nil {
			return err
		}
	}
	rows, err := tx.Query(ctx, t.read, due)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (h keyedHash, err error) {
		err = r.Scan(&h.id, &h.old, &h.two)
		h.one, h.two = secret.StoredHash(h.old), secret.StoredHash(h.two)
		return h, err
	})
	if err != nil || len(found) == 0 {
		return err
	}
	for _, write := range t.write {
		if _, err := tx.Exec(ctx, write, keyedHashColumns.Args(found)...); err != nil {
			return err
		}
	}
	return nil
}

// Few notes have a hash without a key, because a note expires within minutes and the next equal call converts it.
const readPlainCalls = `
SELECT source_id, call_hash FROM recent_call WHERE octet_length(call_hash) = 32 ORDER BY source_id, call_hash LIMIT $1 FOR UPDATE`

// A note of which the form with a key exists is of a process without the keyring. The call that came first has the other one.
const deletePlainCall = `
DELETE FROM recent_call r
WHERE r.source_id = $1 AND r.call_hash = $2 AND EXISTS (SELECT FROM recent_call o WHERE o.source_id = r.source_id AND o.call_hash = $3)`

const keyPlainCall = `UPDATE recent_call SET call_hash = $3 WHERE source_id = $1 AND call_hash = $2`

// keyCalls replaces the hashes of the notes of recent calls.
func (cfg *ResealConfig) keyCalls(ctx context.Context, p *ResealProgress) error {
	p.Table, p.Looked = "recent_call", 0
	for {
		read := 0
		err := cfg.keyRows(ctx, func(tx pgx.Tx, secret inbox.InstallationSecret) error {
			rows, err := tx.Query(ctx, readPlainCalls, resealRows)
			if err != nil {
				return err
			}
			var source int32
			var hash []byte
			var b pgx.Batch
			_, err = pgx.ForEachRow(rows, []any{&source, &hash}, func() error {
				old := append([]byte(nil), hash...)
				b.Queue(deletePlainCall, source, old, secret.StoredHash(old))
				b.Queue(keyPlainCall, source, old, secret.StoredHash(old))
				return nil
			})
			read = b.Len() / 2
			if err != nil || read == 0 {
				return err
			}
			return tx.SendBatch(ctx, &b).Close()
		})
		if err != nil || read == 0 {
			return err
		}
		p.Looked += int64(read)
		if err := sleep.For(ctx, cfg.Pause); err != nil {
			return err
		}
	}
}
