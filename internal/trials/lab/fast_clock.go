package lab

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// FastClock is the clock of one database, and of the processes of a test that work on it. It moves as the test says. Unlike
// [DatabaseClock] it leaves the other databases of the server alone.
//
// It replaces the bodies of now() and clock_timestamp() by expressions, which PostgreSQL inlines. The expressions add an offset from a
// table, so every session sees a new offset in its next statement. Timers and timeouts do not change, because they do not call these
// functions.
type FastClock struct {
	conn  *pgx.Conn
	ahead atomic.Int64
}

const replaceClocksOfDatabase = `
CREATE SCHEMA fast_clock;
CREATE TABLE fast_clock.ahead (by interval NOT NULL);
INSERT INTO fast_clock.ahead VALUES ('0');
GRANT USAGE ON SCHEMA fast_clock TO PUBLIC;
GRANT SELECT ON fast_clock.ahead TO PUBLIC;
CREATE FUNCTION fast_clock.read() RETURNS interval LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT by FROM fast_clock.ahead';
CREATE FUNCTION pg_catalog.true_now() RETURNS timestamptz LANGUAGE internal STABLE STRICT PARALLEL SAFE AS 'now';
CREATE FUNCTION pg_catalog.true_clock_timestamp() RETURNS timestamptz LANGUAGE internal VOLATILE STRICT PARALLEL SAFE AS 'clock_timestamp';
CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT pg_catalog.true_now() + fast_clock.read() $$;
CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT pg_catalog.true_clock_timestamp() + fast_clock.read() $$`

// NewFastClock replaces the clock of a database, as a superuser. Start processes after this call.
func NewFastClock(ctx context.Context, dsn string) (*FastClock, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	if _, err := conn.Exec(ctx, replaceClocksOfDatabase); err != nil {
		return nil, errors.Join(fmt.Errorf("making the database's clock movable: %w", err), conn.Close(ctx))
	}
	return &FastClock{conn: conn}, nil
}

// Now is the time.
func (c *FastClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Pass lets so much time pass. The lock on the table keeps the database from answering with another time than processes have: a
// comparison of the two clocks in that moment takes as long as the jump, and is therefore not trusted.
func (c *FastClock) Pass(ctx context.Context, d time.Duration) error {
	d = d.Round(time.Microsecond)
	err := pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE fast_clock.ahead`); err != nil {
			return err
		}
		c.ahead.Add(int64(d))
		_, err := tx.Exec(ctx, `UPDATE fast_clock.ahead SET by = by + $1::bigint * interval '1 microsecond'`, d.Microseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("letting %s pass: %w", d, err)
	}
	return nil
}

// Close ends the connection with which the clock is moved. The clock goes with its database.
func (c *FastClock) Close(ctx context.Context) error { return c.conn.Close(ctx) }
