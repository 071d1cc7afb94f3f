package logins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

const (
	// DefaultLink is how long a link is valid by default.
	DefaultLink = 10 * time.Minute
	// LongestLink is the longest that a link may be valid, because anyone who obtains the link can
	// log in.
	LongestLink = time.Hour
)

// ErrLinkTime is returned for a link that would be valid for less than 1s or more than 1h.
var ErrLinkTime = errors.New("a link is valid for at least 1s and at most 1h")

// NewLink describes a link to create.
type NewLink struct {
	Grant
	// Valid is how long the link is valid, at most [LongestLink]. Zero means [DefaultLink].
	Valid time.Duration
	// By names the creator of the link, for the audit. Required.
	By string
}

const insertLink = `INSERT INTO login_link (digest, actor, scopes, tenant, expires_at) VALUES ($1, $2, $3, nullif($4, ''), $5)`

// NewLink creates a link that logs in once, writes an audit entry, and returns the link's code. The
// code is not stored.
func (s *Store) NewLink(ctx context.Context, n NewLink) (code string, expires time.Time, err error) {
	if n.Valid == 0 {
		n.Valid = DefaultLink
	}
	if n.Valid < time.Second || n.Valid > LongestLink {
		return "", time.Time{}, fmt.Errorf("making a link: %w", ErrLinkTime)
	}
	if strings.TrimSpace(n.Actor) == "" || len(n.Scopes) == 0 {
		return "", time.Time{}, errors.New("making a link: it needs an actor and scopes")
	}
	if err := inbox.CheckExplanation(n.By, "a link is made"); err != nil {
		return "", time.Time{}, fmt.Errorf("making a link: %w", err)
	}
	now := s.now()
	code, expires = newSecret(), now.Add(n.Valid)
	digest := Digest(code)
	err = pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertLink, digest[:], n.Actor, n.Scopes, n.Tenant, expires); err != nil {
			return err
		}
		return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
			At: now, Actor: n.By, Action: AuditLink, Object: "console",
			After: map[string]any{"actor": n.Actor, "scopes": n.Scopes, "tenant": n.Tenant, "expires_at": expires},
		})
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("making a link: %w", err)
	}
	return code, expires, nil
}

// If several requests use a link at the same time, only one of them deletes the row.
const useLink = `DELETE FROM login_link WHERE digest = $1 RETURNING actor, scopes, coalesce(tenant, ''), expires_at`

// BeginWithLink uses up a link and starts its login, in one transaction. previous is the digest of
// the login that the browser had before, or nil. BeginWithLink returns [ErrLink] for a link that
// was used, has expired or never existed.
func (s *Store) BeginWithLink(ctx context.Context, code string, previous *[sha256.Size]byte) (cookie string, begun *Login, err error) {
	digest := Digest(code)
	err = pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		o := Opening{Method: ByLink, Previous: previous}
		var expires time.Time
		if err := tx.QueryRow(ctx, useLink, digest[:]).Scan(&o.Actor, &o.Scopes, &o.Tenant, &expires); err != nil {
			return err
		}
		if !s.now().Before(expires) {
			return pgx.ErrNoRows // prune deletes it
		}
		cookie, begun, err = s.begin(ctx, tx, o)
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", nil, ErrLink
	case err != nil:
		return "", nil, fmt.Errorf("logging in with a link: %w", err)
	}
	return cookie, begun, nil
}
