package prune

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Nothing points at a request of the API: what it did is in the audit.
const deleteAPIRequests = `
WITH due AS MATERIALIZED (
    SELECT a.key_hash FROM api_request a WHERE a.expires_at < $1::timestamptz ORDER BY a.expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM api_request a USING due WHERE a.key_hash = due.key_hash`

const countAPIRequests = `SELECT count(*) FROM api_request WHERE expires_at < $1::timestamptz`

func (s *pass) apiRequests(ctx context.Context) error {
	return s.drain(ctx, "api_request", deleteAPIRequests, s.retention.now)
}

func (s *pass) countAPIRequests(ctx context.Context, tx pgx.Tx) (n int64, err error) {
	err = tx.QueryRow(ctx, countAPIRequests, s.retention.now).Scan(&n)
	return n, err
}
