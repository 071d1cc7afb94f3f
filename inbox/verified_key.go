package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxVerifiedKeys is how many keys are read: far more than all senders have that one
	// instance serves.
	maxVerifiedKeys = 512

	// keepVerifiedKey is for how long a key is kept that verifies nothing any more.
	keepVerifiedKey = 90 * 24 * time.Hour
)

// VerifiedKey is a key or certificate, as its sender publishes it, that has verified
// something.
type VerifiedKey struct {
	// Digest identifies the document: 32 bytes, made of its address and of the request
	// that is posted to it.
	Digest []byte

	// URL is the address, for people.
	URL string

	Document []byte

	// FetchedAt is when it was fetched, and VerifiedAt when it last verified something.
	FetchedAt, VerifiedAt time.Time
}

const readVerifiedKeys = `
SELECT digest, url, document, fetched_at, verified_at FROM verified_key
ORDER BY verified_at DESC, digest
LIMIT $1`

// ReadVerifiedKeys reads the keys that have verified something, at most 512, those that
// did so last first.
func ReadVerifiedKeys(ctx context.Context, pool *pgxpool.Pool) ([]VerifiedKey, error) {
	rows, err := pool.Query(ctx, readVerifiedKeys, maxVerifiedKeys)
	if err == nil {
		var keys []VerifiedKey
		if keys, err = pgx.CollectRows(rows, pgx.RowToStructByPos[VerifiedKey]); err == nil {
			return keys, nil
		}
	}
	return nil, fmt.Errorf("reading the keys that have verified something: %w", err)
}

// The latest fetch decides the document, because two processes may have fetched it at
// about the same time. Each write also deletes keys that have verified nothing for long,
// so that the table needs no other cleanup.
const writeVerifiedKey = `
WITH gone AS (DELETE FROM verified_key WHERE verified_at < $6 AND digest <> $1)
INSERT INTO verified_key AS k (digest, url, document, fetched_at, verified_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT ON CONSTRAINT verified_key_pkey DO UPDATE SET
    document = CASE WHEN excluded.fetched_at >= k.fetched_at THEN excluded.document ELSE k.document END,
    fetched_at = greatest(excluded.fetched_at, k.fetched_at),
    verified_at = greatest(excluded.verified_at, k.verified_at)`

// WriteVerifiedKey adds a key, or brings the one with its digest up to date. Keys that
// have verified nothing for 90 days before VerifiedAt are deleted.
func WriteVerifiedKey(ctx context.Context, pool *pgxpool.Pool, k *VerifiedKey) error {
	_, err := pool.Exec(ctx, writeVerifiedKey, k.Digest, k.URL, k.Document, k.FetchedAt, k.VerifiedAt, k.VerifiedAt.Add(-keepVerifiedKey))
	if err != nil {
		return fmt.Errorf("writing a key that has verified something: %w", err)
	}
	return nil
}

const deleteVerifiedKey = `DELETE FROM verified_key WHERE digest = $1`

// DeleteVerifiedKey deletes a key that its sender does not publish any more.
func DeleteVerifiedKey(ctx context.Context, pool *pgxpool.Pool, digest []byte) error {
	if _, err := pool.Exec(ctx, deleteVerifiedKey, digest); err != nil {
		return fmt.Errorf("deleting a key that is not published any more: %w", err)
	}
	return nil
}
