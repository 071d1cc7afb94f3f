package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// DatabaseClock sets the clock of a PostgreSQL server as its processes see it, without the machine's clock, a compiler or root.
//
// It replaces the bodies of now() and clock_timestamp() by expressions that add an offset. PostgreSQL inlines them wherever the
// functions are called: in statements of every session and role, prepared or not, in functions and in defaults of columns. The
// offset is a setting of the whole server, and each session takes a new one before its next statement. To a process that is connected, this is
// the same as a clock that was set.
//
// It shows what Oncegate writes and decides while the database's time is wrong. It does not show what PostgreSQL itself does then: its
// timeouts, its log, the statistics views and CURRENT_TIMESTAMP keep the right time. In a transaction that is open at the moment of the jump, now()
// jumps too, where a real now() would stay. Only a superuser can do this, so the server must be the trial's own.
type DatabaseClock struct{ conn *pgx.Conn }

const replaceClocks = `
CREATE FUNCTION pg_catalog.true_now() RETURNS timestamptz LANGUAGE internal STABLE STRICT PARALLEL SAFE AS 'now';
CREATE FUNCTION pg_catalog.true_clock_timestamp() RETURNS timestamptz LANGUAGE internal VOLATILE STRICT PARALLEL SAFE AS 'clock_timestamp';
CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT pg_catalog.true_now() + coalesce(nullif(current_setting('trial.ahead', true), ''), '0')::interval $$;
CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT pg_catalog.true_clock_timestamp() + coalesce(nullif(current_setting('trial.ahead', true), ''), '0')::interval $$`

const restoreClocks = `
CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz LANGUAGE internal STABLE STRICT PARALLEL SAFE AS 'now';
CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE internal VOLATILE STRICT PARALLEL SAFE AS 'clock_timestamp';
DROP FUNCTION pg_catalog.true_now(), pg_catalog.true_clock_timestamp()`

// NewDatabaseClock makes the clock of a server settable. Processes that are to see it are started after this.
func NewDatabaseClock(ctx context.Context, dsn string) (*DatabaseClock, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	if _, err := conn.Exec(ctx, replaceClocks); err != nil {
		return nil, errors.Join(fmt.Errorf("making the database's clock settable: %w", err), conn.Close(ctx))
	}
	return &DatabaseClock{conn}, nil
}

// Set sets the clock ahead of the right time, and returns when a new statement of this session sees it. The server accepts a setting
// that it does not know only from a session that has set it itself.
func (c *DatabaseClock) Set(ctx context.Context, ahead time.Duration) error {
	offset := fmt.Sprintf("'%d ms'", ahead.Milliseconds())
	for _, sql := range []string{"SET trial.ahead = '0'", "ALTER SYSTEM SET trial.ahead = " + offset, "SELECT pg_reload_conf()", "RESET trial.ahead"} {
		if _, err := c.conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("setting the database's clock: %w", err)
		}
	}
	return rig.Until(ctx, 10*time.Second, "the database's clock to be set", func() (set bool, err error) {
		err = c.conn.QueryRow(ctx, "SELECT now() - true_now() = $1::text::interval", offset[1:len(offset)-1]).Scan(&set)
		return set, err
	})
}

// Close sets the clock right and restores the functions.
func (c *DatabaseClock) Close(ctx context.Context) error {
	err := c.Set(ctx, 0)
	_, err2 := c.conn.Exec(ctx, restoreClocks)
	return errors.Join(err, err2, c.conn.Close(ctx))
}
