package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// These errors say why the process does not use a session, or runs no effects.
var (
	// ErrBehind says that a server is a former primary, or was set back: this process has seen later commits elsewhere.
	ErrBehind = errors.New("the server is a former primary, or was set back to an earlier state: this process has seen the database further on, " +
		"and uses no session of this server; stop the server and make it a standby of the primary")

	// ErrOtherSystem says that a server is another cluster than the one that this process began with.
	ErrOtherSystem = errors.New("the server is another cluster than the one this process began with: if the database has moved there, restart the process")

	// ErrUndecided says that no effect runs until it is known what happened to the database.
	ErrUndecided = errors.New("no effect is carried out before the missing part is known after the database's history changed")
)

// History is what a process remembers of its database's history: the system identifier, the highest timeline and the highest
// commit position that it has seen. The process uses no session of a server with an earlier timeline or position, so that it never writes
// to a former primary that comes back. History compares in memory: a session is asked for its position when it is opened, and never
// again. Its zero value remembers nothing; it is safe for concurrent use.
type History struct {
	timeline atomic.Uint32 // the highest seen

	mu      sync.Mutex
	system  int64
	witness Witness
	conns   map[*watchedConn]uint32 // live connections, by the timeline of their server

	begun     atomic.Uint32 // up to which timeline beginner was called
	beginner  func(context.Context, *pgx.Conn) error
	beginning sync.Mutex

	decides atomic.Bool   // whether work waits for a decision
	decided atomic.Uint32 // the timeline for which effects may run

	route route
}

// Witness is a commit that a process saw succeed.
type Witness struct {
	// Timeline and LSN are a place in the write-ahead log that lies before the commit's own record, at the end of another one. The
	// commit has succeeded, so that everything up to there was durable.
	Timeline uint32
	LSN      uint64

	// Synchronous says that the commit waited for a standby.
	Synchronous bool

	// At is when the commit had succeeded, on this machine's monotonic clock.
	At time.Time
}

// Remember notes a commit.
func (h *History) Remember(w Witness) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.Timeline > h.witness.Timeline || w.Timeline == h.witness.Timeline && w.LSN >= h.witness.LSN {
		h.witness = w
	}
}

// Witness returns the highest commit that was remembered; the zero value is none.
func (h *History) Witness() Witness {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.witness
}

// Timeline returns the highest timeline that any session of the process has shown; 0 if none has.
func (h *History) Timeline() uint32 { return h.timeline.Load() }

// TimelineOf returns the timeline of a connection's server; 0 for a standby, and for a connection that [Prepare] did not set up.
func TimelineOf(conn *pgx.Conn) uint32 {
	if s := stateOf(conn.PgConn()); s != nil {
		return s.timeline
	}
	return 0
}

// Judge compares a server's position with the remembered one and returns nil, [ErrBehind] or [ErrOtherSystem]. It remembers a later
// position, and at once closes the sessions on servers with an earlier timeline, including those in use. A standby takes no
// writes, so Judge only checks that it belongs to the same cluster.
//
// before is the [History.Witness] from before the server was asked, because the answer may be older than later commits.
func (h *History) Judge(p Position, before Witness) error { return h.judge(p, before, nil) }

func (h *History) judge(p Position, before Witness, conn *watchedConn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	highest := h.timeline.Load()
	switch {
	case h.system != 0 && h.system != p.System:
		return ErrOtherSystem
	case p.Standby:
		return nil
	case p.Timeline < highest:
		return fmt.Errorf("%w (timeline %d, and %d was seen)", ErrBehind, p.Timeline, highest)
	case p.Timeline == before.Timeline && p.LSN < before.LSN:
		return fmt.Errorf("%w (timeline %d ends at %s, and a commit at %s was seen)", ErrBehind, p.Timeline, FormatLSN(p.LSN), FormatLSN(before.LSN))
	}
	h.system = p.System
	if p.Timeline > highest {
		h.timeline.Store(p.Timeline)
		for old, timeline := range h.conns {
			if timeline < p.Timeline {
				delete(h.conns, old)
				_ = old.Conn.Close() // its user gets an error at once, instead of an answer
			}
		}
	}
	if conn != nil {
		if h.conns == nil {
			h.conns = map[*watchedConn]uint32{}
		}
		h.conns[conn] = p.Timeline
	}
	return nil
}

// forget is called when a connection is closed.
func (h *History) forget(conn *watchedConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, conn)
}

// admit judges a new session by its position, and remembers the timeline with the connection.
func (h *History) admit(conn *pgconn.PgConn, s *state, p Position, before Witness) error {
	if err := h.judge(p, before, watchedOf(conn.Conn())); err != nil {
		return err
	}
	s.standby, s.timeline = p.Standby, p.Timeline
	return nil
}

// watchedOf returns the pool's connection below any TLS connection, or nil if there is none.
func watchedOf(conn net.Conn) *watchedConn {
	for {
		switch c := conn.(type) {
		case *watchedConn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// behind reports whether the session's server has an earlier timeline, so that the session must not be used any more.
func (h *History) behind(s *state) bool { return s.timeline != 0 && s.timeline < h.timeline.Load() }

// OnBegin sets do to be called on the first session of each timeline after the given one, before anything else uses a
// session of that timeline. A session on which do fails is not used.
func (h *History) OnBegin(timeline uint32, do func(context.Context, *pgx.Conn) error) {
	h.beginning.Lock()
	defer h.beginning.Unlock()
	h.begun.Store(timeline)
	h.beginner = do
}

func (h *History) begin(ctx context.Context, conn *pgx.Conn) error {
	s := stateOf(conn.PgConn())
	if s == nil || s.timeline <= h.begun.Load() {
		return nil
	}
	h.beginning.Lock()
	defer h.beginning.Unlock()
	if h.beginner == nil || s.timeline <= h.begun.Load() {
		return nil
	}
	if err := h.beginner(ctx, conn); err != nil {
		return fmt.Errorf("recording the beginning of timeline %d: %w", s.timeline, err)
	}
	h.begun.Store(s.timeline)
	return nil
}

// Decide makes pools for effects ([CarriesOut]) hand out only sessions of this timeline. With 0 they hand out none, and return
// [ErrUndecided]. Before the first call they hand out all sessions.
func (h *History) Decide(timeline uint32) {
	h.decided.Store(timeline)
	h.decides.Store(true)
}

// mayWork returns [ErrUndecided] if effects may not run over a session.
func (h *History) mayWork(s *state) error {
	if h.decides.Load() && s.timeline != 0 && s.timeline != h.decided.Load() {
		return ErrUndecided
	}
	return nil
}
