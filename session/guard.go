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

// ErrShared says that a pooler gives a session's connection to others between transactions.
var ErrShared = errors.New("the database is behind a pooler in transaction or statement mode, which shares sessions: " +
	"use the pooler's session mode, or connect to PostgreSQL directly")

// stateKey is where a connection keeps its state.
const stateKey = "oncegate.session"

// state is what a connection knows about its session. A connection is used by one goroutine at a
// time, and so is its state.
type state struct {
	pid    uint32 // the process that served it first
	mark   string // what it has set in its session
	pooled bool   // the startup message named another process: somebody stands in between

	commits, path string // synchronous_commit and search_path, if it has set them

	idle bool // it was idle in the pool

	timeline uint32 // of its server when the session was opened; 0 of a standby
	standby  bool   // its server was in recovery then
}

func stateOf(conn *pgconn.PgConn) *state {
	s, _ := conn.CustomData()[stateKey].(*state)
	return s
}

// Pooled reports whether a pooler stands between the connection and the server: the process that
// the startup named is not the one that serves the session.
func Pooled(conn *pgx.Conn) bool {
	s := stateOf(conn.PgConn())
	return s != nil && s.pooled
}

// PID is the server's process that serves the connection's session, 0 if the connection was not
// made by [Prepare]. Behind a pooler it is not the one that the startup named.
func PID(conn *pgx.Conn) uint32 {
	if s := stateOf(conn.PgConn()); s != nil {
		return s.pid
	}
	return 0
}

const readMark = `
SELECT pg_backend_pid(), current_setting('oncegate.session', true), current_setting('synchronous_commit'), current_setting('search_path')`

// errLost is a session whose settings are gone, in a way that need not be a pooler's: a function
// in the database may reset them.
var errLost = errors.New("the session has lost its settings")

// verify asks a connection whether it still has its session: nil, [ErrShared], errLost, or that it
// could not be asked.
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

// Guard proves that sessions are not shared, for the pools that it guards. Its zero value is
// ready; it is safe for concurrent use.
type Guard struct {
	shared atomic.Bool
	seen   atomic.Uint64
	direct atomic.Bool

	history History
}

// History is what the sessions of the guarded pools have shown of the database's history.
func (g *Guard) History() *History { return &g.history }

// Direct reports whether the connections of the last [Guard.Prove] led straight to the server.
// Only connections that are made later can lead to a pooler then.
func (g *Guard) Direct() bool { return g.direct.Load() }

// Err returns [ErrShared] while sessions are known to be shared.
func (g *Guard) Err() error {
	if g.shared.Load() {
		return ErrShared
	}
	return nil
}

// idleFor is how long a connection was idle when it is asked for its session before it is handed
// out again; it takes the place of the pool's ping.
const idleFor = time.Second

// fence keeps a pool from sessions on former primaries.
type fence struct {
	history *History
	work    bool // effects are carried out over its sessions
	reads   bool // nothing can be written over them
}

// pass says whether a session may be used. keep is false if the session must be closed. A session that was opened on a standby is
// asked again where it could write, because the standby may have been promoted.
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

// watch has the pool of cfg ask connections that were idle whether they still have their session,
// within timeout. The pool hands out no connection while sessions are shared, and none that the fence refuses.
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
				return false, ctx.Err() // another connection is tried
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

// provingKey lets a guard's own questions pass while sessions are shared.
type provingKey struct{}

func proving(ctx context.Context) bool { return ctx.Value(provingKey{}) != nil }

// ErrNotProved is wrapped by what [Guard.Prove] returns when it could not ask: that proves
// nothing, and changes nothing.
var ErrNotProved = errors.New("the pooler could not be asked whether it shares sessions")

// How Prove asks.
const (
	// proveTimeout bounds one call: a pooler whose connections are all taken has a statement wait.
	proveTimeout = 5 * time.Second

	// questions is how many times two connections are asked, in an order that no rule of a
	// pooler for picking connections keeps step with.
	questions = 16
)

// Prove asks two connections of the pool, in turn and at random, whether they still have their own
// sessions, and returns [ErrShared] if one has not. In session mode each of them has its own,
// whatever else goes on; in transaction mode either sees another process, or the mark that the
// other one left in the same process, unless all other clients happen to hold the same connections
// between any two of the questions. A connection that leads straight to the server is not asked.
//
// Behind a pooler the pool needs room for two connections. Nothing is held while another answer
// is waited for, so that a pooler with a single connection can answer.
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
			direct = true // the server itself named the process that serves it
			break
		}
	}
	g.direct.Store(direct)
	rounds := questions
	if direct {
		rounds = 0
	}
	for i := range rounds {
		// Both are asked once, then twice in a row, and then as it comes.
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
		return g.Err() // a connection of the process has seen it meanwhile
	}
	g.shared.Store(false)
	return nil
}

// drop closes connections whose sessions are not theirs, so that the pool does not keep them.
func (g *Guard) drop(conns []*pgxpool.Conn) {
	for _, conn := range conns {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = conn.Conn().Close(ctx) // it is given up either way
		cancel()
	}
}
