package jobs

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/node"
)

// The pauses of an effect whose route neither this process nor another live one knows.
// In a rolling deploy one of them knows it within seconds; a route that was removed is
// not known for good. So the pause is short at first and then as long as the time for
// which this process has met the route. That is remembered here and in no row: growing
// costs nothing, and a process that starts anew begins with the short ones.
const (
	minUnknownPause = time.Second
	maxUnknownPause = time.Hour

	// unknownApart is how far apart the ends of two pauses are at least, so that a large
	// backlog costs a hundred updates a second at most, and hardly any later.
	unknownApart = 10 * time.Millisecond

	// For lookForPeersFor after a route was first met the table of processes is read anew
	// up to once every lookForPeersEvery: a process that knows the route has most likely
	// just started. After that its heartbeat tells of it soon enough.
	lookForPeersFor   = 2 * node.Heartbeat
	lookForPeersEvery = time.Second

	// reportUnknownEvery is how often the log tells of them, all in one line.
	reportUnknownEvery = time.Minute
)

// unknownRoutes are the effects of unknown routes that this process has met.
type unknownRoutes struct {
	now    func() time.Time
	random func() float64
	log    *slog.Logger
	peers  *node.Peers

	mu       sync.Mutex
	since    map[int32]time.Time // when the route was first met
	met      map[int32]int       // since the last line of the log
	ends     map[int32]time.Time // of the route's last pause
	reported time.Time
	looked   time.Time
}

func newUnknownRoutes(now func() time.Time, random func() float64, log *slog.Logger, peers *node.Peers) *unknownRoutes {
	return &unknownRoutes{
		now: now, random: random, log: log, peers: peers,
		since: map[int32]time.Time{}, met: map[int32]int{}, ends: map[int32]time.Time{},
	}
}

// worked reports whether another live process knows the route. Now and then it reads the
// table of processes for it, in the place of one of the callers.
func (u *unknownRoutes) worked(ctx context.Context, route int32) bool {
	if u.peers.Works(route) {
		u.forget(route)
		return true
	}
	if !u.mayLook(route) {
		return false
	}
	if err := u.peers.Look(ctx); err != nil {
		u.log.WarnContext(ctx, "whether another process knows a route is not known", "route_id", route, "error", clean(err.Error()))
		return false
	}
	return u.peers.Works(route)
}

// forget has the pauses begin anew, with short ones.
func (u *unknownRoutes) forget(route int32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.since, route)
	delete(u.ends, route)
}

func (u *unknownRoutes) mayLook(route int32) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	since, met := u.since[route]
	if u.peers == nil || met && now.Sub(since) > lookForPeersFor || now.Sub(u.looked) < lookForPeersEvery {
		return false
	}
	u.looked = now
	return true
}

// pause is how long an effect of the route is put off. A quarter of it is chance, so
// that a backlog that was met at once does not come back at once.
func (u *unknownRoutes) pause(ctx context.Context, route int32) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	if u.since[route].IsZero() {
		u.since[route] = now
	}
	u.met[route]++
	if now.Sub(u.reported) >= reportUnknownEvery {
		u.report(ctx)
		u.reported = now
	}
	pause := min(max(now.Sub(u.since[route]), minUnknownPause), maxUnknownPause)
	end := now.Add(pause)
	if next := u.ends[route].Add(unknownApart); next.After(end) {
		end = next
	}
	u.ends[route] = end
	return end.Sub(now) + time.Duration(u.random()*float64(pause)/4)
}

func (u *unknownRoutes) report(ctx context.Context) {
	n, routes := 0, make([]int32, 0, len(u.met))
	for route, met := range u.met {
		n += met
		routes = append(routes, route)
	}
	slices.Sort(routes)
	clear(u.met)
	u.log.WarnContext(ctx, "effects of routes that no process knows are put off; `oncegate routes list` shows what became of the routes",
		"effects", n, "route_ids", routes)
}

// leaveUnknown leaves an effect of a route that this process does not know to another
// live process that works it, or else puts it off until one does.
func (c *Client) leaveUnknown(ctx context.Context, w wakeUp, standing inbox.Standing) error {
	if c.cfg.Observe != nil {
		c.cfg.Observe(Report{Effect: w.effect, State: standing.State, Reason: inbox.ReasonRoute})
	}
	if c.unknown.worked(ctx, standing.RouteID) {
		if err := c.handOvers.do(w.jobID, standing.RouteID); err != nil {
			return c.retryLater(ctx, "handing an effect over", err)
		}
		return river.JobSnooze(0)
	}
	pause := c.unknown.pause(ctx, standing.RouteID)
	if err := c.store.PostponeStray(ctx, w.effect, pause); err != nil {
		return c.retryLater(ctx, "postponing an effect", err)
	}
	return river.JobSnooze(pause)
}
