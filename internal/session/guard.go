package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrShared says that a pooler passes a session's connection to other clients between transactions.
var ErrShared = errors.New("the database is behind a pooler in transaction or statement mode, which shares sessions: " +
	"use the pooler's session mode, or connect to PostgreSQL directly")

// stateKey is where a connection keeps its state.
const stateKey = "oncegate.session"

// state is what a connection knows about its session. Only one goroutine at a time uses a
// connection and its state.
type state struct {
	pid    uint32 // the process that served it first
	mark   string // the mark that it has set in its session
	pooled bool   // the startup named another process, so there is a pooler

	commits, path string // synchronous_commit and search_path, if it has set them

	idle bool // it was idle in the pool

	timeline uint32 // of its server when the session was opened; 0 of a standby
	standby  bool   // its server was in recovery then
}

func stateOf(conn *pgconn.PgConn) *state {
	s, _ := conn.CustomData()[stateKey].(*state)
	return s
}

// Pooled reports whether there is a pooler between the connection and the server. It knows because
// the startup named another process than the one that serves the session.
func Pooled(conn *pgx.Conn) bool {
	s := stateOf(conn.PgConn())
	return s != nil && s.pooled
}

// PID returns the id of the server process that serves the connection's session, or 0 if the
// connection was not set up by [Prepare]. With a pooler, the startup names another process.
func PID(conn *pgx.Conn) uint32 {
	if s := stateOf(conn.PgConn()); s != nil {
		return s.pid
	}
	return 0
}

const readMark = `
SELECT pg_backend_pid(), current_setting('oncegate.session', true), current_setting('synchronous_commit'), current_setting('search_path')`

// errLost says that a session has lost its settings. The cause may be a pooler, or a function in
// the database that resets them.
var errLost = errors.New("the session has lost its settings")

// verify checks whether a connection still has its session. It returns nil, [ErrShared], errLost, or
// another error if the check failed.
func verify(ctx context.Context, conn *pgconn.PgConn) error {
	s := stateOf(conn)
	if s == nil {
		return nil // not one of ours
	}
	results, err := conn.Exec(ctx, readMark).ReadAll()
	if err != nil {
		return fmt.Errorf("asking a connection for its session: %w", err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return errors.New("asking a connection for its session: no answer")
	}
	row := results[0].Rows[0]
	pid, err := strconv.ParseUint(string(row[0]), 10, 32)
	if err != nil {
		return fmt.Errorf("asking a connection for its session: %w", err)
	}
	mark := string(row[1])
	switch {
	case uint32(pid) != s.pid, mark != "" && mark != s.mark:
		return ErrShared
	case mark == "", s.commits != "" && s.commits != string(row[2]), s.path != "" && s.path != string(row[3]):
		return errLost
	}
	return nil
}

// Guard proves that the sessions of its pools are not shared. Its zero value is
// ready. It is safe for concurrent use.
type Guard struct {
	shared atomic.Bool
	seen   atomic.Uint64
	direct atomic.Bool

	history History
}

// History returns what the process knows of the database's history from the sessions of the guarded pools.
func (g *Guard) History() *History { return &g.history }

// Direct reports whether the last [Guard.Prove] found a connection without a pooler. Only
// connections opened later can then lead to a pooler.
func (g *Guard) Direct() bool { return g.direct.Load() }

// Err returns [ErrShared] while sessions are known to be shared.
func (g *Guard) Err() error {
	if g.shared.Load() {
		return ErrShared
	}
	return nil
}

// idleFor is how long a connection must have been idle to be checked before the pool hands it
// out again. The check replaces the pool's ping.
const idleFor = time.Second

// fence keeps a pool from sessions on former primaries.
type fence struct {
	history *History
	work    bool // effects run over its sessions
	reads   bool // its sessions cannot write
}

// pass returns nil if a session may be used. keep is false if the session must be closed. pass checks a session that was opened on a
// standby again if it could write, because the standby may have been promoted.
func (f fence) pass(ctx context.Context, conn *pgx.Conn, s *state, timeout time.Duration) (keep bool, err error) {
	if s.standby && !f.reads {
		timed, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		p, err := readPosition(timed, conn.PgConn())
		if err != nil || !p.Standby {
			return false, ctx.Err() // the pool opens another if this one was promoted
		}
	}
	if f.history.behind(s) {
		return false, nil
	}
	if f.work {
		return true, f.history.mayWork(s)
	}
	return true, nil
}

// watch makes the pool of cfg check, within timeout, whether idle connections still have their
// sessions. The pool hands out no connection while sessions are shared, and none that the fence refuses.
func (g *Guard) watch(cfg *pgxpool.Config, timeout time.Duration, behind fence) {
	cfg.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		s := stateOf(p.Conn.PgConn())
		if s == nil {
			return p.IdleDuration > idleFor
		}
		s.idle = p.IdleDuration > idleFor
		return false
	}
	cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		s := stateOf(conn.PgConn())
		if s != nil && s.idle {
			s.idle = false
			timed, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			switch err := verify(timed, conn.PgConn()); {
			case errors.Is(err, ErrShared):
				g.found()
				if !proving(ctx) {
					return false, err
				}
				return false, nil
			case err != nil:
				return false, ctx.Err() // the pool tries another connection
			}
		}
		if g.shared.Load() && !proving(ctx) {
			return true, ErrShared
		}
		if s != nil {
			return behind.pass(ctx, conn, s, timeout)
		}
		return true, nil
	}
}

func (g *Guard) found() {
	g.seen.Add(1)
	g.shared.Store(true)
}

// provingKey marks the contexts of a guard's own checks, which may run while sessions are shared.
type provingKey struct{}

func proving(ctx context.Context) bool { return ctx.Value(provingKey{}) != nil }

// ErrNotProved is wrapped by the error that [Guard.Prove] returns if its checks failed. Such a
// failure proves nothing, and changes nothing.
var ErrNotProved = errors.New("the pooler could not be asked whether it shares sessions")

// The limits of Prove.
const (
	// proveTimeout bounds one call, because a statement waits if all connections of a pooler are taken.
	proveTimeout = 5 * time.Second

	// questions is how many checks are made on two connections. Their order is random, so that it
	// cannot match a pooler's rule for picking connections.
	questions = 16
)

// Prove checks two connections of the pool, in a partly random order, and returns [ErrShared] if one has not
// its own session. In session mode each always has its own. In transaction mode a connection sees
// another process, or the mark that the other connection left in the same process. It could miss
// this only if the pooler happened to assign the same server connections at every check.
// Prove makes no checks if the first connection leads straight to the server.
//
// With a pooler, the pool must allow two connections. Prove keeps no transaction open between
// its checks, so that a pooler with a single server connection can answer.
func (g *Guard) Prove(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, provingKey{}, true), proveTimeout)
	defer cancel()
	before := g.seen.Load()
	var conns [2]*pgxpool.Conn
	direct := false
	for i := range conns {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotProved, err)
		}
		defer conn.Release()
		conns[i] = conn
		if i == 0 && !Pooled(conn.Conn()) {
			direct = true // the startup named the process that serves the session
			break
		}
	}
	g.direct.Store(direct)
	rounds := questions
	if direct {
		rounds = 0
	}
	for i := range rounds {
		// Each is checked once, then twice in a row, and then at random.
		which := []int{0, 1, 0, 0, 1, 1}
		turn := rand.IntN(len(conns)) //nolint:gosec // any order will do that nobody else keeps
		if i < len(which) {
			turn = which[i]
		}
		conn := conns[turn].Conn()
		switch err := verify(ctx, conn.PgConn()); {
		case errors.Is(err, ErrShared), errors.Is(err, errLost) && Pooled(conn):
			g.found()
			g.drop(conns[:])
			return ErrShared
		case errors.Is(err, errLost):
			g.drop(conns[turn : turn+1])
			return fmt.Errorf("%w: %w", ErrNotProved, err)
		case err != nil:
			return fmt.Errorf("%w: %w", ErrNotProved, err)
		}
	}
	if g.seen.Load() != before {
		return g.Err() // another connection of the process has found a shared session
	}
	g.shared.Store(false)
	return nil
}

// drop closes connections that have lost their sessions, so that the pool does not keep them.
func (g *Guard) drop(conns []*pgxpool.Conn) {
	for _, conn := range conns {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = conn.Conn().Close(ctx) // the result does not matter
		cancel()
	}
}
