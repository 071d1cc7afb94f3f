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

// How standbys are asked how much of the write-ahead log they have received.
const (
	// standbyEvery is how often a standby is asked while nobody waits for it, so that its promotion is noticed.
	standbyEvery = time.Second

	// standbySilence is how long the answer to one question may take. A standby that does not answer is not waited for.
	standbySilence = time.Second

	// A standby that has not received what is waited for is asked again after a pause that doubles.
	askAgainAfter, askAgainAtMost = time.Millisecond, 50 * time.Millisecond
)

// Standbys are the standbys among the hosts of a pool's url, to any of which the database may fail over. Where replication is asynchronous,
// a standby that is promoted may lack the last commits. [Standbys.Received] lets a caller wait until the standbys have a commit
// before it does what cannot be taken back. A nil Standbys is none. It is safe for concurrent use.
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

// standby is one of them.
type standby struct {
	address string
	ask     chan struct{} // somebody waits

	mu       sync.Mutex
	received uint64
	wanted   uint64        // the highest position that anybody has waited for
	late     bool          // it answers, and a caller has given up waiting for it
	gone     bool          // it is asked no more
	changed  chan struct{} // closed by the next answer
}

// NewStandbys makes a Standbys that knows none yet. Call Close at the end.
func NewStandbys(history *History, pool *pgxpool.Pool, log *slog.Logger) *Standbys {
	ctx, stop := context.WithCancel(context.Background())
	return &Standbys{history: history, pool: pool, log: log, ctx: ctx, stop: stop, known: map[string]*standby{}}
}

// Close ends what Look began.
func (s *Standbys) Close() {
	s.stop()
	s.asking.Wait()
}

// Look is [History.Look]; from then on it asks the standbys that it found.
func (s *Standbys) Look(ctx context.Context) []HostState {
	hosts := s.history.Look(ctx, s.pool)
	if len(hosts) < 2 {
		return hosts // the next one that the address leads to cannot be asked now
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
		_ = conn.Close(ctx) // it is given up either way
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

// run asks until the standby is none any more, or does not answer.
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
			again = b.late && b.received >= goal // what was wanted a second ago
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
			ask = nil // a pause that is over soon
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

// answer changes what is known of the standby, and wakes those that wait for it.
func (b *standby) answer(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	close(b.changed)
	b.changed = make(chan struct{})
}

// await returns once the standby has received a position, or is not to be waited for. It reports false if ctx has ended before.
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

// Timeline is [History.Timeline]; 0 of a nil Standbys.
func (s *Standbys) Timeline() uint32 {
	if s == nil {
		return 0
	}
	return s.history.Timeline()
}

// Received waits until every standby that answers has received the log of a timeline up to a position, so that whichever is promoted
// has what was committed before. A standby that answers and has not received it within the given time is not waited for until it has
// caught up. Received returns [ErrBehind] if the database has moved to another timeline: then nothing may be done that the former
// primary recorded.
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

// connect opens a connection to the host that is used for nothing but questions, and is shown under a name of its own.
func (s *HostState) connect(ctx context.Context, cfg *pgconn.Config, name string) (*pgconn.PgConn, error) {
	one := cfg.Copy()
	s.keep(one)
	one.ValidateConnect, one.AfterConnect, one.OnNotice, one.OnPgError = nil, nil, nil, nil
	one.ConnectTimeout = askTimeout
	one.DialFunc = new(net.Dialer).DialContext // that it says nothing is no news of the pool's connections
	one.RuntimeParams["application_name"] = "oncegate " + name
	return pgconn.ConnectConfig(ctx, one)
}
