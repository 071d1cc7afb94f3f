package jobs

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// The pauses of an effect whose route neither this process nor another live one knows.
// In a rolling deploy one of them knows it within seconds; a route that was removed is
// not known for good. So the pause is short at first and then as long as the time for
// which this process has met the route. That is remembered here and in no row: growing
// costs nothing, and a process that starts anew begins with the short ones.
const (
	shortestStray = time.Second
	longestStray  = time.Hour

	// strayApart is how far apart the ends of two pauses are at least, so that a large
	// backlog costs a hundred updates a second at most, and hardly any later.
	strayApart = 10 * time.Millisecond

	// For strayLooks after a route was first met the table of processes is read anew
	// up to once every strayLookEvery: a process that knows the route has most likely
	// just started. After that its heartbeat tells of it soon enough.
	strayLooks     = 2 * inbox.NodeHeartbeat
	strayLookEvery = time.Second

	// straysEvery is how often the log tells of them, all in one line.
	straysEvery = time.Minute
)

// strays are the effects of unknown routes that this process has met.
type strays struct {
	now    func() time.Time
	random func() float64
	log    *slog.Logger
	peers  *inbox.Peers

	mu       sync.Mutex
	since    map[int32]time.Time // when the route was first met
	met      map[int32]int       // since the last line of the log
	ends     map[int32]time.Time // of the route's last pause
	reported time.Time
	looked   time.Time
}

func newStrays(now func() time.Time, random func() float64, log *slog.Logger, peers *inbox.Peers) *strays {
	return &strays{
		now: now, random: random, log: log, peers: peers,
		since: map[int32]time.Time{}, met: map[int32]int{}, ends: map[int32]time.Time{},
	}
}

// known reports whether another live process knows the route. Now and then it reads the
// table of processes for it, in the place of one of the callers.
func (s *strays) known(ctx context.Context, route int32) bool {
	if s.peers.Works(route) {
		s.forget(route)
		return true
	}
	if !s.mayLook(route) {
		return false
	}
	if err := s.peers.Look(ctx); err != nil {
		s.log.WarnContext(ctx, "whether another process knows a route is not known", "route_id", route, "error", clean(err.Error()))
		return false
	}
	return s.peers.Works(route)
}

// forget has the pauses begin anew, with short ones.
func (s *strays) forget(route int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, route)
	delete(s.ends, route)
}

func (s *strays) mayLook(route int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	since, met := s.since[route]
	if s.peers == nil || met && now.Sub(since) > strayLooks || now.Sub(s.looked) < strayLookEvery {
		return false
	}
	s.looked = now
	return true
}

// pause is how long an effect of the route is put off. A quarter of it is chance, so
// that a backlog that was met at once does not come back at once.
func (s *strays) pause(ctx context.Context, route int32) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.since[route].IsZero() {
		s.since[route] = now
	}
	s.met[route]++
	if now.Sub(s.reported) >= straysEvery {
		s.report(ctx)
		s.reported = now
	}
	pause := min(max(now.Sub(s.since[route]), shortestStray), longestStray)
	end := now.Add(pause)
	if next := s.ends[route].Add(strayApart); next.After(end) {
		end = next
	}
	s.ends[route] = end
	return end.Sub(now) + time.Duration(s.random()*float64(pause)/4)
}

func (s *strays) report(ctx context.Context) {
	n, routes := 0, make([]int32, 0, len(s.met))
	for route, met := range s.met {
		n += met
		routes = append(routes, route)
	}
	slices.Sort(routes)
	clear(s.met)
	s.log.WarnContext(ctx, "effects of routes that no process knows are put off; `oncegate routes list` shows what became of the routes",
		"effects", n, "route_ids", routes)
}
