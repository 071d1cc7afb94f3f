package jobs

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// The pauses of an effect whose route this process does not know. In a rolling deploy
// another process knows it within seconds; a route that was removed is not known for
// good. So the pause is short at first and then grows with the time for which this
// process has met the route. That is remembered here and in no row: growing costs
// nothing, and a process that starts anew begins with the short ones.
const (
	shortestStray = postponed
	longestStray  = time.Hour

	// straysEvery is how often the log tells of them, all in one line.
	straysEvery = time.Minute
)

// strays are the effects of unknown routes that this process has met.
type strays struct {
	now    func() time.Time
	random func() float64
	log    *slog.Logger

	mu       sync.Mutex
	since    map[int32]time.Time // when the route was first met
	met      map[int32]int       // since the last line of the log
	reported time.Time
}

func newStrays(now func() time.Time, random func() float64, log *slog.Logger) *strays {
	return &strays{now: now, random: random, log: log, since: map[int32]time.Time{}, met: map[int32]int{}}
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
	pause := min(max(2*now.Sub(s.since[route]), shortestStray), longestStray)
	return pause + time.Duration(s.random()*float64(pause)/4)
}

func (s *strays) report(ctx context.Context) {
	n, routes := 0, make([]int32, 0, len(s.met))
	for route, met := range s.met {
		n += met
		routes = append(routes, route)
	}
	slices.Sort(routes)
	clear(s.met)
	s.log.WarnContext(ctx, "effects of routes that this process does not know are put off; `oncegate routes list` shows what became of the routes",
		"effects", n, "route_ids", routes)
}
