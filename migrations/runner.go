package migrations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/session"
)

const (
	connectTimeout = 10 * time.Second

	// cancelAfter is how long the server has to end a statement after a cancel request. After that
	// the connection is closed.
	cancelAfter = 10 * time.Second

	// commitWithin limits a COMMIT, which a stop does not interrupt.
	commitWithin = time.Minute
)

// runner runs migrations on one connection. The same connection holds the lock, so that the lock is
// free only when PostgreSQL has ended everything that the connection was doing.
type runner struct {
	cfg  Config
	conn *pgx.Conn
	pid  int32 // of PostgreSQL's backend; a pooler in between reports another one
}

// locked runs f on a connection to the schema after taking the lock. It releases the lock by closing
// the connection.
func (m *Migrator) locked(ctx context.Context, f func(*runner) error) error {
	history := new(session.History)
	cfg, err := m.connConfig(history)
	if err != nil {
		return err
	}
	conn, err := session.ConnectTo(ctx, cfg, history)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelAfter)
		defer cancel()
		_ = conn.Close(closing)
	}()
	r := &runner{cfg: m.cfg, conn: conn}
	if session.Pooled(conn) {
		if err := m.prove(ctx); err != nil {
			return err
		}
	}
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&r.pid); err != nil {
		return r.stopped(ctx, fmt.Errorf("preparing the connection: %w", err))
	}
	if err := r.lock(ctx); err != nil {
		return r.stopped(ctx, err)
	}
	return r.stopped(ctx, f(r))
}

func (m *Migrator) connConfig(history *session.History) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(m.cfg.URL)
	if err != nil {
		// pgx's message may quote the URL, including the password.
		return nil, errors.New("reading the database url: not a PostgreSQL connection string; use postgres://user:password@host:5432/database")
	}
	cfg.RuntimeParams["application_name"] = applicationName
	session.Prepare(cfg, sessionSettings(m.cfg.Schema), history)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, connectTimeout)
	if m.cfg.dial != nil {
		cfg.DialFunc = m.cfg.dial
	}
	// Do not prepare statements, because the tables change.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	// A stop cancels the statement but keeps the connection, on which the transaction is rolled
	// back before the error is returned.
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelAfter}
	}
	return cfg, nil
}

// lock waits until no other migration runs. It polls instead of waiting in PostgreSQL, because a
// CREATE INDEX CONCURRENTLY of the other migration would wait for a session that waits for the
// lock.
func (r *runner) lock(ctx context.Context) error {
	var name string
	if err := r.conn.QueryRow(ctx, "SELECT current_database()").Scan(&name); err != nil {
		return fmt.Errorf("waiting for another migration: %w", err)
	}
	// This is golang-migrate's own lock. It may outlive a process that was killed.
	text, err := database.GenerateAdvisoryLockId(name, r.cfg.Schema, versionTable)
	if err != nil {
		return fmt.Errorf("naming the lock of schema %s: %w", r.cfg.Schema, err)
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("naming the lock of schema %s: %w", r.cfg.Schema, err)
	}
	return r.take(ctx, id)
}

// take requests one session lock until it has the lock or the time is up.
func (r *runner) take(ctx context.Context, id int64) error {
	w := r.patience("another migration to end")
	for {
		var got bool
		if err := r.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", id).Scan(&got); err != nil {
			return fmt.Errorf("waiting for another migration: %w", err)
		}
		if got {
			return nil
		}
		holders, err := advisory.Holders(ctx, r.conn, id)
		if err != nil {
			return fmt.Errorf("waiting for another migration: %w", err)
		}
		if len(holders) == 0 {
			holders = w.holders
		}
		if err := w.again(ctx, holders, lockPoll); err != nil {
			return err
		}
	}
}

// ErrStopped is wrapped by the error of a migration that ended because its context did.
var ErrStopped = errors.New("stopped")

// stopped returns [ErrStopped] instead of err if ctx has ended.
func (r *runner) stopped(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: the migration under way was rolled back, those before it stay: run the command again", ErrStopped)
}

func (r *runner) status(ctx context.Context) (Status, error) {
	status, err := readStatus(ctx, r.conn)
	if r.cfg.version != 0 {
		status.Known = r.cfg.version
	}
	return status, err
}
