package logins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
)

const (
	// DefaultIdle is how long an unused login lasts.
	DefaultIdle = 2 * time.Hour
	// DefaultLongest is the longest that a login lasts even if it is in use.
	DefaultLongest = 12 * time.Hour
)

// Config configures a [Store]. Pool is required.
type Config struct {
	// Pool is a connection pool with write access.
	Pool *pgxpool.Pool
	// Now returns the current time. It defaults to time.Now.
	Now func() time.Time
	// Idle is how long an unused login lasts. Zero means [DefaultIdle].
	Idle time.Duration
	// Longest is the longest that a login lasts. Zero means [DefaultLongest].
	Longest time.Duration
}

// Store stores logins. It is safe for concurrent use.
type Store struct{ cfg Config }

// NewStore returns a Store.
func NewStore(cfg Config) *Store {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Idle <= 0 {
		cfg.Idle = DefaultIdle
	}
	if cfg.Longest <= 0 {
		cfg.Longest = DefaultLongest
	}
	return &Store{cfg: cfg}
}

// now returns the current time with the precision that the database stores.
func (s *Store) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// Opening describes a login to start.
type Opening struct {
	Grant
	// Method is how the person logged in.
	Method Method
	// Token is the token with which the person logged in, or zero. The login ends when the token
	// does.
	Token inbox.ID
	// Detail is recorded in the audit entry, such as the issuer and the subject of an identity. It
	// may be nil.
	Detail map[string]string
	// Previous is the digest of the browser's previous login, which the new login ends. It may be
	// nil.
	Previous *[sha256.Size]byte
}

const insertLogin = `
INSERT INTO console_login (id, digest, actor, scopes, tenant, method, token_id, created_at, used_at, expires_at)
VALUES ($1, $2, $3, $4, nullif($5, ''), $6, $7, $8, $8, $9)`

// A browser that logs in again has only one login.
const endPreviousLogin = `UPDATE console_login SET ended_at = $2 WHERE digest = $1 AND ended_at IS NULL`

// Begin records a login, writes an audit entry, and returns the value of the login's cookie, which
// is not stored. The value is always new, so a cookie that an attacker planted before the login is
// useless.
func (s *Store) Begin(ctx context.Context, o Opening) (cookie string, begun *Login, err error) {
	err = pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) (err error) {
		cookie, begun, err = s.begin(ctx, tx, o)
		return err
	})
	if err != nil {
		return "", nil, fmt.Errorf("beginning a login: %w", err)
	}
	return cookie, begun, nil
}

func (s *Store) begin(ctx context.Context, tx pgx.Tx, o Opening) (cookie string, begun *Login, err error) {
	now := s.now()
	cookie = newSecret()
	digest := Digest(cookie)
	begun = &Login{
		ID: inbox.NewID(now), Actor: o.Actor, Scopes: o.Scopes, Tenant: o.Tenant, Method: o.Method, Token: o.Token,
		CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(s.cfg.Longest), State: Active,
	}
	if o.Previous != nil {
		if _, err := tx.Exec(ctx, endPreviousLogin, o.Previous[:], now); err != nil {
			return "", nil, err
		}
	}
	_, err = tx.Exec(ctx, insertLogin, begun.ID, digest[:], begun.Actor, begun.Scopes, begun.Tenant, string(begun.Method), begun.Token, now, begun.ExpiresAt)
	if err != nil {
		return "", nil, err
	}
	return cookie, begun, inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: now, Actor: o.Actor, Action: AuditLogin, Object: "login/" + begun.ID.String(),
		After: map[string]any{"method": o.Method, "scopes": o.Scopes, "tenant": o.Tenant, "detail": o.Detail},
	})
}

// A login stops working when its token does. $2 is the current time.
const selectLogins = `
SELECT l.id, l.actor, l.scopes, coalesce(l.tenant, ''), l.method, l.token_id, l.created_at, l.used_at, l.expires_at, l.ended_at,
    coalesce(t.revoked_at IS NOT NULL OR t.expires_at <= $2::timestamptz, false)
FROM console_login l LEFT JOIN access_token t ON t.id = l.token_id
`

func (s *Store) scan(row pgx.CollectableRow) (*Login, error) {
	var l Login
	err := row.Scan(&l.ID, &l.Actor, &l.Scopes, &l.Tenant, &l.Method, &l.Token, &l.CreatedAt, &l.UsedAt, &l.ExpiresAt, &l.EndedAt, &l.tokenEnded)
	l.State = l.stateAt(s.now(), s.cfg.Idle)
	return &l, err
}

// Find probes two unique indexes, once for each request with a cookie that is not in the process's
// memory.
const findLogin = selectLogins + `WHERE l.digest = $1`

// Find returns the login whose cookie has the digest, even if it has ended, or [ErrNotFound].
func (s *Store) Find(ctx context.Context, digest [sha256.Size]byte) (*Login, error) {
	return s.one(ctx, findLogin, digest[:], s.now())
}

// listDigests reads the digests of logins that may still work. A full list is read at most once per second.
const listDigests = `SELECT digest FROM console_login WHERE ended_at IS NULL AND expires_at > $1 ORDER BY id DESC LIMIT $2`

// Digests returns the digests of the cookies of the newest logins that work, at most limit.
func (s *Store) Digests(ctx context.Context, limit int) ([][sha256.Size]byte, error) {
	rows, err := s.cfg.Pool.Query(ctx, listDigests, s.now(), limit)
	if err != nil {
		return nil, fmt.Errorf("listing the digests of logins: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (digest [sha256.Size]byte, err error) {
		var stored []byte
		err = row.Scan(&stored)
		copy(digest[:], stored)
		return digest, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the digests of logins: %w", err)
	}
	return found, nil
}

const readLogin = selectLogins + `WHERE l.id = $1`

// Read returns the login with the id, or [ErrNotFound].
func (s *Store) Read(ctx context.Context, id inbox.ID) (*Login, error) {
	return s.one(ctx, readLogin, id, s.now())
}

func (s *Store) one(ctx context.Context, sql string, args ...any) (*Login, error) {
	rows, err := s.cfg.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("reading a login: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, s.scan)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("reading a login: %w", err)
	}
	return found, nil
}

// StateAt returns the state of a login at a time.
func (s *Store) StateAt(l *Login, now time.Time) State { return l.stateAt(now, s.cfg.Idle) }

// UseEvery is the shortest interval at which the use of a login is recorded.
const UseEvery = time.Minute

// The condition ensures that only one of several processes records a use per minute.
const useLogin = `
UPDATE console_login SET used_at = $2 WHERE id = $1 AND used_at <= $2::timestamptz - interval '1 minute'`

// Use records that a login was used, at most once per [UseEvery].
func (s *Store) Use(ctx context.Context, id inbox.ID, at time.Time) error {
	if _, err := s.cfg.Pool.Exec(ctx, useLogin, id, at); err != nil {
		return fmt.Errorf("recording the use of a login: %w", err)
	}
	return nil
}
