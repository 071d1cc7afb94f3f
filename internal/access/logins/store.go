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
	// DefaultIdle is how long a login lasts that nobody uses.
	DefaultIdle = 2 * time.Hour
	// DefaultLongest is how long a login lasts that somebody uses all the time.
	DefaultLongest = 12 * time.Hour
)

// Config configures a [Store]. Pool is required.
type Config struct {
	// Pool may write.
	Pool *pgxpool.Pool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Idle is how long a login lasts that nobody uses; 0 is [DefaultIdle].
	Idle time.Duration
	// Longest is how long a login lasts at most; 0 is [DefaultLongest].
	Longest time.Duration
}

// Store keeps logins. Its methods may be called at the same time.
type Store struct{ cfg Config }

// NewStore makes a Store.
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

// now is the time as it is stored.
func (s *Store) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// Opening describes a login to begin.
type Opening struct {
	Grant
	// Method is how the person logged in.
	Method Method
	// Token is the token that they logged in with; zero is none. The login ends with it.
	Token inbox.ID
	// Detail is kept in the audit, such as the issuer and the subject of an identity; nil is none.
	Detail map[string]string
	// Previous is the digest of the login that the browser had before, which ends; nil is none.
	Previous *[sha256.Size]byte
}

const insertLogin = `
INSERT INTO console_login (id, digest, actor, scopes, tenant, method, token_id, created_at, used_at, expires_at)
VALUES ($1, $2, $3, $4, nullif($5, ''), $6, $7, $8, $8, $9)`

// A browser that logs in again has one login, not two.
const endPreviousLogin = `UPDATE console_login SET ended_at = $2 WHERE digest = $1 AND ended_at IS NULL`

// Begin records a login with an audit entry and gives the value of its cookie, which nothing keeps.
// The value is always a new one: a cookie that somebody planted before the login is worth nothing.
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

// The login of a token that works no more works no more either. $2 is the time.
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

// Two probes of unique indexes, for each request under a cookie that the process does not remember.
const findLogin = selectLogins + `WHERE l.digest = $1`

// Find gives the login whose cookie has the digest, also one that is over, or [ErrNotFound].
func (s *Store) Find(ctx context.Context, digest [sha256.Size]byte) (*Login, error) {
	return s.one(ctx, findLogin, digest[:], s.now())
}

const readLogin = selectLogins + `WHERE l.id = $1`

// Read gives the login with the id, or [ErrNotFound].
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

// StateAt gives the state of a login at a time.
func (s *Store) StateAt(l *Login, now time.Time) State { return l.stateAt(now, s.cfg.Idle) }

// UseEvery is how often the use of a login is written at most.
const UseEvery = time.Minute

// The condition keeps several processes from writing the same minute.
const useLogin = `
UPDATE console_login SET used_at = $2 WHERE id = $1 AND used_at <= $2::timestamptz - interval '1 minute'`

// Use records that a login was used, at most once in [UseEvery].
func (s *Store) Use(ctx context.Context, id inbox.ID, at time.Time) error {
	if _, err := s.cfg.Pool.Exec(ctx, useLogin, id, at); err != nil {
		return fmt.Errorf("recording the use of a login: %w", err)
	}
	return nil
}
