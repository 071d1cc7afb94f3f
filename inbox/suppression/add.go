package suppression

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// MaxBatch is how many entries [Store.Add] takes at once, because one short transaction writes them.
const MaxBatch = 1000

// Added counts the entries that were added.
type Added struct {
	// Added is how many addresses are newly suppressed, and Extended how many are suppressed for longer than before.
	Added    int `json:"added"`
	Extended int `json:"extended"`
	// Known is how many were suppressed for as long already, or named twice.
	Known int `json:"known"`
}

// Plus returns the sum of two results.
func (a Added) Plus(b Added) Added {
	return Added{Added: a.Added + b.Added, Extended: a.Extended + b.Extended, Known: a.Known + b.Known}
}

// Decision is who adds or removes entries and why, as the audit keeps it.
type Decision struct {
	Actor, Reason string
	// Import says that the entries are a part of a file.
	Import bool
}

// Add suppresses at most [MaxBatch] addresses in one transaction, with an entry in the audit, which does not name them. Adding
// an address again changes nothing, unless it is suppressed for longer then.
func (s *Store) Add(ctx context.Context, entries []Entry, d Decision) (Added, error) {
	if err := inbox.CheckExplanation(d.Actor, d.Reason); err != nil {
		return Added{}, fmt.Errorf("suppressing addresses: %w", err)
	}
	if len(entries) == 0 || len(entries) > MaxBatch {
		return Added{}, fmt.Errorf("suppressing addresses: from 1 to %d at once, not %d", MaxBatch, len(entries))
	}
	var out Added
	err := pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		added, ids, err := s.addTx(ctx, tx, entries)
		if err != nil {
			return err
		}
		out = added
		a := inbox.AuditEntry{At: s.cfg.Now(), Actor: d.Actor, Action: inbox.AuditSuppressionAdd, Object: "suppression", Reason: d.Reason, After: added}
		if d.Import {
			a.Action = inbox.AuditSuppressionImport
		}
		if len(ids) == 1 {
			a.Object += "/" + ids[0].String()
		}
		return inbox.WriteAuditTx(ctx, tx, a)
	})
	if err != nil {
		return Added{}, fmt.Errorf("suppressing addresses: %w", err)
	}
	return out, nil
}

// AddTx suppresses addresses in the transaction of an effect, which is their record: it writes no audit.
func (s *Store) AddTx(ctx context.Context, tx pgx.Tx, entries []Entry) (Added, error) {
	out, _, err := s.addTx(ctx, tx, entries)
	return out, err
}

// stored is the database row of an entry.
type stored struct {
	id              inbox.ID
	digest, address []byte
	keyID           *int32
	target          string
	reason          Reason
	event           inbox.ID
	expires         *time.Time // nil is never
}

var storedColumns = row.ColumnsFrom(3,
	row.UUID("id", func(s *stored) inbox.ID { return s.id }),
	row.Bytes("digest", func(s *stored) []byte { return s.digest }),
	row.Bytes("address", func(s *stored) []byte { return s.address }),
	row.Int("key_id", func(s *stored) *int32 { return s.keyID }),
	row.Text("target", func(s *stored) string { return s.target }),
	row.Text("reason", func(s *stored) Reason { return s.reason }),
	row.UUID("source_event", func(s *stored) inbox.ID { return s.event }),
	row.Time("expires_at", func(s *stored) *time.Time { return s.expires }),
)

// An existing entry does not change, unless it ends sooner than the new one. The rows come in the order of their
// digests, so that two transactions that add the same addresses wait for each other instead of ending in a deadlock.
var insertEntries = `
INSERT INTO suppression AS x (id, digest, secret_id, address, key_id, target, reason, source_event, created_at, expires_at)
SELECT a.id, a.digest, $1::uuid, a.address, a.key_id, a.target, a.reason, nullif(a.source_event, '00000000-0000-0000-0000-000000000000'), $2::timestamptz, a.expires_at
FROM unnest(` + storedColumns.Arrays() + `) WITH ORDINALITY AS a (` + storedColumns.Names() + `, place)
ORDER BY a.place
ON CONFLICT ON CONSTRAINT suppression_digest_target_key DO UPDATE
SET reason = excluded.reason, source_event = excluded.source_event, expires_at = excluded.expires_at,
    created_at = CASE WHEN x.expires_at < now() THEN excluded.created_at ELSE x.created_at END
WHERE x.expires_at IS NOT NULL AND (excluded.expires_at IS NULL OR excluded.expires_at > x.expires_at)
RETURNING x.id, x.id = ANY ($11::uuid[])`

func (s *Store) addTx(ctx context.Context, tx pgx.Tx, entries []Entry) (out Added, ids []inbox.ID, err error) {
	secret, err := inbox.InstallationSecretTx(ctx, tx, s.cfg.Keyring)
	if err != nil {
		return out, nil, err
	}
	var secretID *inbox.ID
	if !secret.ID.IsZero() {
		// The secret is not remembered before it is committed: [Store.learn] reads it.
		secretID = &secret.ID
	}
	now := s.cfg.Now()
	rows := make([]stored, 0, len(entries))
	for i := range entries {
		var normal string
		if err := entries[i].check(&normal); err != nil {
			return out, nil, err
		}
		e := &entries[i]
		r := stored{id: inbox.NewID(now), digest: digestOf(secret.Value, normal), target: e.Target, reason: e.Reason, event: e.Event}
		if !e.Expires.IsZero() {
			r.expires = &e.Expires
		}
		if !s.cfg.HashOnly {
			r.address, r.keyID = s.cfg.Keyring.Seal(place.Suppressed(r.id), []byte(normal))
		}
		rows = append(rows, r)
	}
	// Of several entries for one address the one that lasts longest counts, because one statement cannot change a row
	// twice.
	slices.SortStableFunc(rows, func(a, b stored) int {
		return cmp.Or(bytes.Compare(a.digest, b.digest), cmp.Compare(a.target, b.target), longer(a.expires, b.expires))
	})
	rows = slices.CompactFunc(rows, func(a, b stored) bool { return bytes.Equal(a.digest, b.digest) && a.target == b.target })
	made := make([]inbox.ID, len(rows))
	for i := range rows {
		made[i] = rows[i].id
	}
	args := storedColumns.Append([]any{secretID, now}, rows)
	changed, err := tx.Query(ctx, insertEntries, append(args, made)...)
	if err != nil {
		return out, nil, err
	}
	var id inbox.ID
	var fresh bool
	_, err = pgx.ForEachRow(changed, []any{&id, &fresh}, func() error {
		ids = append(ids, id)
		if fresh {
			out.Added++
		} else {
			out.Extended++
		}
		return nil
	})
	out.Known = len(entries) - out.Added - out.Extended
	return out, ids, err
}

// longer orders times of expiry, the latest first; nil is never.
func longer(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return b.Compare(*a)
}
