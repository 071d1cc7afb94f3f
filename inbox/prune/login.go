package prune

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// loginRetention is how long a login of the console and a link are kept after their end, so that lists still show who was
// logged in. The audit remembers it for longer.
const loginRetention = 24 * time.Hour

// Nothing points at a login. Those that expired first go first, also those that ended before.
const deleteLogins = `
WITH due AS MATERIALIZED (
    SELECT l.id FROM console_login l WHERE l.expires_at < $1::timestamptz ORDER BY l.expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM console_login l USING due WHERE l.id = due.id`

// A link that was used is deleted by its use.
const deleteLoginLinks = `
WITH due AS MATERIALIZED (
    SELECT l.digest FROM login_link l WHERE l.expires_at < $1::timestamptz ORDER BY l.expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM login_link l USING due WHERE l.digest = due.digest`

const countLogins = `
SELECT (SELECT count(*) FROM console_login WHERE expires_at < $1::timestamptz), (SELECT count(*) FROM login_link WHERE expires_at < $1::timestamptz)`

func (s *pass) logins(ctx context.Context) error {
	if err := s.drain(ctx, "console_login", deleteLogins, s.retention.now.Add(-loginRetention)); err != nil {
		return err
	}
	return s.drain(ctx, "login_link", deleteLoginLinks, s.retention.now.Add(-loginRetention))
}

func (s *pass) countLogins(ctx context.Context, tx pgx.Tx) (logins, links int64, err error) {
	err = tx.QueryRow(ctx, countLogins, s.retention.now.Add(-loginRetention)).Scan(&logins, &links)
	return logins, links, err
}
