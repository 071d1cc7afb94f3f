package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// How the hosts of a url are asked.
const (
	// askTimeout bounds how long one host may take to answer: one that is frozen takes connections and says nothing.
	askTimeout = 2 * time.Second

	// preferFor is how long the last good host is asked alone.
	preferFor = 250 * time.Millisecond

	// settleFor is how long others are waited for after the first primary answered, if none was known before: the first that
	// answers may be a former one.
	settleFor = 500 * time.Millisecond

	// trustFor is how long an answer is good for further connections.
	trustFor = time.Second
)

// ErrNoPrimary says that no host of a url with several of them can be used.
var ErrNoPrimary = errors.New("no host of the database url answers as a server that this process may use")

// route is which host of a url is connected to.
type route struct {
	turn chan struct{} // held by the one that asks; made under History.mu

	good     string // the last good host
	answered time.Time
	timeline uint32 // of its server then
}

// HostState is what one host of a url answered.
type HostState struct {
	// Address is the host and port, or the socket.
	Address string
	// Position is the position of its server, if Err is nil.
	Position Position
	// Err says why the host is not used: it did not answer, or [ErrBehind] or [ErrOtherSystem].
	Err error

	place int
	only  []*pgconn.FallbackConfig
}

// hostsOf are the hosts of a connection string, each with the ways to connect to it that sslmode allows.
func hostsOf(cfg *pgconn.Config) []HostState {
	all := append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...)
	var hosts []HostState
	known := map[string]int{}
	for _, way := range all {
		address := net.JoinHostPort(way.Host, strconv.Itoa(int(way.Port)))
		i, ok := known[address]
		if !ok {
			i = len(hosts)
			known[address] = i
			hosts = append(hosts, HostState{Address: address, place: i})
		}
		hosts[i].only = append(hosts[i].only, way)
	}
	return hosts
}

// keep leaves the configuration with one host.
func (s *HostState) keep(cfg *pgconn.Config) { use(cfg, s.only) }

func use(cfg *pgconn.Config, ways []*pgconn.FallbackConfig) {
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = ways[0].Host, ways[0].Port, ways[0].TLSConfig, ways[1:]
}

// ask opens a connection to the host, asks for its position and closes the connection.
func (s HostState) ask(ctx context.Context, cfg *pgconn.Config, h *History) HostState {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	before := h.Witness()
	conn, err := s.connect(ctx, cfg, "hosts")
	if err != nil {
		s.Err = err
		return s
	}
	if s.Position, s.Err = readPosition(ctx, conn); s.Err == nil {
		s.Err = h.Judge(s.Position, before)
	}
	_ = conn.Close(ctx) // it has served its purpose
	return s
}

// Direct has a connection go to one host: the last good one if it still answers as a primary, or else the primary on the highest
// timeline. Hosts are asked at the same time, so that one that is frozen delays nothing. Where no primary answers but a standby
// does, the connection goes there, so that its refusal names the cause. A url with a single host is left alone.
func (h *History) Direct(ctx context.Context, cfg *pgx.ConnConfig) error {
	hosts := hostsOf(&cfg.Config)
	if len(hosts) < 2 {
		return nil
	}
	turn := h.turn()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-turn }()
	now := time.Now
	if now().Sub(h.route.answered) < trustFor && h.route.timeline == h.timeline.Load() {
		for i := range hosts {
			if hosts[i].Address == h.route.good {
				hosts[i].keep(&cfg.Config)
				return nil
			}
		}
	}
	found, err := h.choose(ctx, &cfg.Config, hosts)
	if err != nil {
		return err
	}
	if found.Position.Standby {
		h.route.good = ""
	} else {
		h.route.good, h.route.answered, h.route.timeline = found.Address, now(), found.Position.Timeline
	}
	found.keep(&cfg.Config)
	return nil
}

// leaveOut limits a connection to the hosts that answer and that h does not refuse. target_session_attrs chooses among them.
func (h *History) leaveOut(ctx context.Context, cfg *pgx.ConnConfig) error {
	hosts := hostsOf(&cfg.Config)
	if len(hosts) < 2 {
		return nil
	}
	var ways []*pgconn.FallbackConfig
	errs := []error{ErrNoPrimary}
	for _, s := range h.lookAt(ctx, &cfg.Config, hosts) {
		if s.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Address, s.Err))
			continue
		}
		ways = append(ways, s.only...)
	}
	if len(ways) == 0 {
		return errors.Join(errs...)
	}
	use(&cfg.Config, ways)
	return nil
}

func (h *History) turn() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.route.turn == nil {
		h.route.turn = make(chan struct{}, 1)
	}
	return h.route.turn
}

// choose asks hosts until it knows which one to use.
func (h *History) choose(ctx context.Context, cfg *pgconn.Config, hosts []HostState) (HostState, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan HostState, len(hosts))
	ask := func(s HostState) { go func() { answers <- s.ask(ctx, cfg, h) }() }
	waiting, left := 0, []HostState{}
	for _, s := range hosts {
		if s.Address == h.route.good {
			ask(s)
			waiting++
		} else {
			left = append(left, s)
		}
	}
	known := waiting > 0
	more := time.NewTimer(preferFor)
	defer more.Stop()
	askAll := func() {
		for _, s := range left {
			ask(s)
			waiting++
		}
		left = nil
	}
	if !known {
		askAll()
	}
	var best, standby *HostState
	var settled <-chan time.Time
	var errs []error
	for waiting > 0 {
		select {
		case s := <-answers:
			waiting--
			switch {
			case s.Err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", s.Address, s.Err))
			case s.Position.Standby:
				if standby == nil || s.place < standby.place {
					standby = &s
				}
			case best == nil || s.Position.Timeline > best.Position.Timeline || s.Position.Timeline == best.Position.Timeline && s.place < best.place:
				best = &s
			}
			if best != nil && known {
				return *best, nil
			}
			if best != nil && settled == nil {
				settled = time.After(settleFor)
			}
			if best == nil {
				askAll()
			}
		case <-more.C:
			askAll()
		case <-settled:
			waiting = 0
		}
	}
	switch {
	case best != nil:
		return *best, nil
	case standby != nil:
		return *standby, nil
	}
	return HostState{}, errors.Join(append([]error{ErrNoPrimary}, errs...)...)
}

// Look asks all hosts of a pool's url at the same time where they stand, so that a later timeline is known before a session needs it:
// a former primary that still answers says nothing of its successor. Where the url has a single host, that may lead to another
// server than before. The answers are in the order of the url.
func (h *History) Look(ctx context.Context, pool *pgxpool.Pool) []HostState {
	cfg := &pool.Config().ConnConfig.Config
	return h.lookAt(ctx, cfg, hostsOf(cfg))
}

func (h *History) lookAt(ctx context.Context, cfg *pgconn.Config, hosts []HostState) []HostState {
	answers := make(chan HostState, len(hosts))
	for _, s := range hosts {
		go func() { answers <- s.ask(ctx, cfg, h) }()
	}
	for range hosts {
		s := <-answers
		hosts[s.place] = s
	}
	return hosts
}

// Connect opens a connection that is none of the pool's, to the host and with the session that the pool's would have.
func Connect(ctx context.Context, pool *pgxpool.Pool) (*pgx.Conn, error) {
	cfg := pool.Config()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cfg.ConnConfig); err != nil {
			return nil, err
		}
	}
	return connect(ctx, cfg.ConnConfig, cfg.AfterConnect)
}

// ConnectTo opens a connection whose configuration was made by [Prepare] with the same history, to the primary.
func ConnectTo(ctx context.Context, cfg *pgx.ConnConfig, history *History) (*pgx.Conn, error) {
	if err := history.Direct(ctx, cfg); err != nil {
		return nil, err
	}
	return connect(ctx, cfg, nil)
}

func connect(ctx context.Context, cfg *pgx.ConnConfig, after func(context.Context, *pgx.Conn) error) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	if after != nil {
		if err := after(ctx, conn); err != nil {
			_ = conn.Close(ctx) // it was never used
			return nil, err
		}
	}
	return conn, nil
}
