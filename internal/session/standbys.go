package session

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The times of the questions to standbys about how much of the write-ahead log they have received.
const (
	// standbyEvery is how often a standby is asked while no caller waits for it, so that its promotion is noticed.
	standbyEvery = time.Second

	// standbySilence is how long the answer to one question may take. Callers do not wait for a standby that does not answer.
	standbySilence = time.Second

	// If a standby has not received the wanted position, it is asked again after a pause that doubles.
	askAgainAfter, askAgainAtMost = time.Millisecond, 50 * time.Millisecond
)

// Standbys are the standbys among the hosts of a pool's url, to any of which the database may fail over. Where replication is asynchronous,
// a standby that is promoted may lack the last commits. [Standbys.Received] lets a caller wait until the standbys have a commit
// before it does something that cannot be undone. A nil Standbys has no standbys. It is safe for concurrent use.
//
// A standby is known from the first [Standbys.Look] to which it answers as one. Each has one connection that stays open. A standby whose
// connection fails, or that does not answer in time, is left out until a later Look finds it again, because work must continue
// without it.
type Standbys struct {
	history *History
	pool    *pgxpool.Pool
	log     *slog.Logger
	ctx     context.Context //nolint:containedctx // of the goroutines
	stop    context.CancelFunc
	asking  sync.WaitGroup

	mu    sync.Mutex
	known map[string]*standby // by address
}

// standby is one standby that answers.
type standby struct {
	address string
	ask     chan struct{} // a caller waits

	mu       sync.Mutex
	received uint64
	wanted   uint64        // the highest position for which a caller has waited
	late     bool          // it answers, and a caller has stopped waiting for it
	gone     bool          // it is no longer asked
	changed  chan struct{} // closed by the next answer
}

// NewStandbys makes a Standbys that knows no standbys yet. Call Close at the end.
func NewStandbys(history *History, pool *pgxpool.Pool, log *slog.Logger) *Standbys {
	ctx, stop := context.WithCancel(context.Background())
	return &Standbys{history: history, pool: pool, log: log, ctx: ctx, stop: stop, known: map[string]*standby{}}
}

// Close stops asking the standbys that Look found, and closes their connections.
func (s *Standbys) Close() {
	s.stop()
	s.asking.Wait()
}

// Look is [History.Look]. The Standbys asks the standbys that Look found from then on.
func (s *Standbys) Look(ctx context.Context) []HostState {
	hosts := s.history.Look(ctx, s.pool)
	if len(hosts) < 2 {
		return hosts // with a single address, a later primary or standby cannot be asked now
	}
	for i := range hosts {
		if hosts[i].Err == nil && hosts[i].Position.Standby {
			s.keepAsking(ctx, &hosts[i])
		}
	}
	return hosts
}

func (s *Standbys) keepAsking(ctx context.Context, host *HostState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[host.Address] != nil || s.ctx.Err() != nil {
		return
	}
	conn, err := host.connect(ctx, &s.pool.Config().ConnConfig.Config, "standbys")
	if err != nil {
		return // the next look tries again
	}
	b := &standby{address: host.Address, received: host.Position.LSN, ask: make(chan struct{}, 1), changed: make(chan struct{})}
	s.known[host.Address] = b
	s.log.InfoContext(ctx, "effects at targets that cannot deduplicate wait until a standby has received them", slog.String("host", b.address))
	s.asking.Go(func() {
		err := b.run(s.ctx, conn, s.history, s.log)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), standbySilence)
		defer cancel()
		_ = conn.Close(ctx) // the result does not matter
		s.mu.Lock()
		delete(s.known, b.address)
		s.mu.Unlock()
		b.answer(func() { b.gone = true })
		if err != nil && s.ctx.Err() == nil {
			s.log.WarnContext(s.ctx, "a standby does not answer: effects no longer wait for it; a failover to it may repeat effects "+
				"of events that it has not received, if their senders deliver them again", slog.String("host", b.address), slog.Any("error", err))
		}
	})
}

// run asks the standby until it is promoted, does not answer, or Close is called.
func (b *standby) run(ctx context.Context, conn *pgconn.PgConn, history *History, log *slog.Logger) error {
	pause, goal := askAgainAfter, uint64(0)
	for {
		timed, cancel := context.WithTimeout(ctx, standbySilence)
		before := history.Witness()
		p, err := readPosition(timed, conn)
		cancel()
		if err != nil {
			return err
		}
		if err := history.Judge(p, before); err != nil || !p.Standby { // a promotion has closed the sessions on the former primary
			return err
		}
		waiting, again := false, false
		b.answer(func() {
			if b.received != p.LSN {
				pause = askAgainAfter
			}
			b.received = p.LSN
			again = b.late && b.received >= goal // the position wanted at the previous answer
			b.late, goal = b.late && !again, b.wanted
			waiting = b.received < b.wanted && !b.late
		})
		if again {
			log.InfoContext(ctx, "a standby has caught up: effects wait for it again", slog.String("host", b.address))
		}
		wait := standbyEvery
		if waiting {
			wait, pause = pause, min(2*pause, askAgainAtMost)
		}
		timer := time.NewTimer(wait)
		ask := b.ask
		if waiting {
			ask = nil // the pause is short
		}
		select {
		case <-timer.C:
		case <-ask:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Close was called
		}
	}
}

// answer applies a change to the standby's state, and wakes the callers that wait for it.
func (b *standby) answer(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	close(b.changed)
	b.changed = make(chan struct{})
}

// await returns true once the standby has received a position, is late or is gone. It returns false if ctx ends before that.
func (b *standby) await(ctx context.Context, lsn uint64) bool {
	for {
		b.mu.Lock()
		b.wanted = max(b.wanted, lsn)
		has, changed := b.gone || b.late || b.received >= lsn, b.changed
		b.mu.Unlock()
		if has {
			return true
		}
		select {
		case b.ask <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Timeline returns [History.Timeline], or 0 for a nil Standbys.
func (s *Standbys) Timeline() uint32 {
	if s == nil {
		return 0
	}
	return s.history.Timeline()
}

// Received waits until every standby that answers has received the log of a timeline up to a position, so that each of them, if
// promoted, has all commits up to there. If a standby answers but has not received it within the given time, callers do not wait for
// that standby until it has caught up. Received returns [ErrBehind] if the database has moved to another timeline. The caller must
// then do nothing that the former primary has recorded.
func (s *Standbys) Received(ctx context.Context, timeline uint32, lsn uint64, within time.Duration) error {
	if s == nil {
		return nil
	}
	timed, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s.mu.Lock()
	known := make([]*standby, 0, len(s.known))
	for _, b := range s.known {
		known = append(known, b)
	}
	s.mu.Unlock()
	for _, b := range known {
		if b.await(timed, lsn) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		first := false
		b.answer(func() {
			late := b.received < lsn
			first, b.late = late && !b.late, b.late || late
		})
		if first {
			s.log.WarnContext(ctx, "a standby is late: effects do not wait for it until it has caught up; a failover to it may repeat effects "+
				"of events that it has not received, if their senders deliver them again", slog.String("host", b.address))
		}
	}
	if now := s.Timeline(); now != timeline {
		return fmt.Errorf("%w (timeline %d, and %d was seen)", ErrBehind, timeline, now)
	}
	return nil
}

// connect opens a connection that is used only to ask the host for its position. name is part of its application name.
func (s *HostState) connect(ctx context.Context, cfg *pgconn.Config, name string) (*pgconn.PgConn, error) {
	one := cfg.Copy()
	s.keep(one)
	one.ValidateConnect, one.AfterConnect, one.OnNotice, one.OnPgError = nil, nil, nil, nil
	one.ConnectTimeout = askTimeout
	one.DialFunc = new(net.Dialer).DialContext // its silence must not renew the pool
	one.RuntimeParams["application_name"] = "oncegate " + name
	return pgconn.ConnectConfig(ctx, one)
}
