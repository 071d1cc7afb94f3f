package tokens

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
)

// Store stores tokens. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	now  func() time.Time
}

// NewStore returns a Store. pool needs write access. now returns the current time and defaults to
// time.Now.
func NewStore(pool *pgxpool.Pool, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{pool: pool, now: now}
}

// The digest of 256 random bits never collides, but the name may.
//
//nolint:gosec // a statement, and no credential
const insertToken = `
INSERT INTO access_token (id, digest, prefix, name, scopes, tenant, created_by, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8, $9)`

// Create creates a token and writes an audit entry. text is the token itself. It is not stored, so
// the caller must show it now.
func (s *Store) Create(ctx context.Context, n New) (text string, created *Token, err error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	if err := n.check(now); err != nil {
		return "", nil, fmt.Errorf("creating a token: %w", err)
	}
	text = newText()
	created = &Token{
		ID: inbox.NewID(now), Prefix: shown(text), Name: n.Name, Scopes: n.Scopes, Tenant: n.Tenant,
		CreatedBy: n.Actor, CreatedAt: now, State: Active,
	}
	if !n.ExpiresAt.IsZero() {
		at := n.ExpiresAt.UTC().Truncate(time.Microsecond)
		created.ExpiresAt = &at
	}
	digest := Digest(text)
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertToken, created.ID, digest[:], created.Prefix, created.Name, created.Scopes, created.Tenant,
			created.CreatedBy, created.CreatedAt, created.ExpiresAt)
		if err != nil {
			return err
		}
		return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
			At: now, Actor: n.Actor, Action: AuditCreate, Object: "token/" + created.ID.String(), After: described(created),
		})
	})
	if taken, ok := errors.AsType[*pgconn.PgError](err); ok && taken.ConstraintName == "access_token_name_idx" {
		err = ErrNameTaken
	}
	if err != nil {
		return "", nil, fmt.Errorf("creating a token: %w", err)
	}
	return text, created, nil
}

// description is what audit entries record about a token.
type description struct {
	Name      string     `json:"name"`
	Prefix    string     `json:"prefix"`
	Scopes    []string   `json:"scopes"`
	Tenant    string     `json:"tenant,omitempty"`
	ExpiresAt *time.Time `json:"expires_at"`
}

func described(t *Token) description {
	return description{Name: t.Name, Prefix: t.Prefix, Scopes: t.Scopes, Tenant: t.Tenant, ExpiresAt: t.ExpiresAt}
}

//nolint:gosec // names of columns, and no credential
const tokenColumns = `id, prefix, name, scopes, coalesce(tenant, ''), created_by, created_at, expires_at, last_used_at, revoked_at`

// scan converts a row into a Token.
func (s *Store) scan(row pgx.CollectableRow) (*Token, error) {
	var t Token
	err := row.Scan(&t.ID, &t.Prefix, &t.Name, &t.Scopes, &t.Tenant, &t.CreatedBy, &t.CreatedAt, &t.ExpiresAt, &t.LastUsedAt, &t.RevokedAt)
	t.State = t.StateAt(s.now())
	return &t, err
}

// Find probes one unique index, once for each request with a token that is not in the process's
// memory.
const findToken = `SELECT ` + tokenColumns + ` FROM access_token WHERE digest = $1`

// Find returns the token with the digest, even if it has expired or was revoked, or [ErrNotFound].
func (s *Store) Find(ctx context.Context, digest [sha256.Size]byte) (*Token, error) {
	return s.one(ctx, findToken, digest[:])
}

// listDigests reads the digests of tokens that may still work. There are few, and a full list is read at most once per second.
const listDigests = `SELECT digest FROM access_token WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1) ORDER BY id DESC LIMIT $2`

// Digests returns the digests of the newest tokens that work, at most limit.
func (s *Store) Digests(ctx context.Context, limit int) ([][sha256.Size]byte, error) {
	rows, err := s.pool.Query(ctx, listDigests, s.now(), limit)
	if err != nil {
		return nil, fmt.Errorf("listing the digests of tokens: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (digest [sha256.Size]byte, err error) {
		var stored []byte
		err = row.Scan(&stored)
		copy(digest[:], stored)
		return digest, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the digests of tokens: %w", err)
	}
	return found, nil
}

const readToken = `SELECT ` + tokenColumns + ` FROM access_token WHERE id = $1`

// Read returns the token with the id, or [ErrNotFound].
func (s *Store) Read(ctx context.Context, id inbox.ID) (*Token, error) {
	return s.one(ctx, readToken, id)
}

// The name is unique among tokens that are not revoked.
const readTokenNamed = `SELECT ` + tokenColumns + ` FROM access_token WHERE name = $1 AND revoked_at IS NULL`

// ReadNamed returns the token with the name that is not revoked, or [ErrNotFound].
func (s *Store) ReadNamed(ctx context.Context, name string) (*Token, error) {
	return s.one(ctx, readTokenNamed, name)
}

func (s *Store) one(ctx context.Context, sql string, arg any) (*Token, error) {
	rows, err := s.pool.Query(ctx, sql, arg)
	if err != nil {
		return nil, fmt.Errorf("reading a token: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, s.scan)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("reading a token: %w", err)
	}
	return found, nil
}

// UseEvery is the shortest interval at which the use of a token is recorded.
const UseEvery = time.Minute

// The condition ensures that only one of several processes records a use per minute.
const useToken = `
UPDATE access_token SET last_used_at = $2
WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $2::timestamptz - interval '1 minute')`

// Use records that a token was used, at most once per [UseEvery].
func (s *Store) Use(ctx context.Context, id inbox.ID, at time.Time) error {
	if _, err := s.pool.Exec(ctx, useToken, id, at); err != nil {
		return fmt.Errorf("recording the use of a token: %w", err)
	}
	return nil
}
