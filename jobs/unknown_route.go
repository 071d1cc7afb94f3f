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
	"github.com/oncegate/oncegate/inbox/reasons"
)

// The pauses of an effect whose route neither this process nor another live one knows. In a rolling
// deploy some process knows the route within seconds; a route that was removed stays unknown. The
// pause is therefore short at first, and then as long as the time since this process first met the
// route. That time is kept in memory and in no row: a growing pause writes nothing extra, and a
// process that restarts begins with short pauses.
const (
	minUnknownPause = time.Second
	maxUnknownPause = time.Hour

	// unknownApart is the least time between the ends of two pauses of a route, so that a large
	// backlog costs at most a hundred updates a second, and hardly any later.
	unknownApart = 10 * time.Millisecond

	// For lookForPeersFor after a route was first met, the table of processes is read again up to
	// once every lookForPeersEvery, because a process that knows the route has most likely just
	// started. After that the heartbeat reads it often enough.
	lookForPeersFor   = 2 * node.Heartbeat
	lookForPeersEvery = time.Second

	// reportUnknownEvery is how often the log reports these effects, all in one line.
	reportUnknownEvery = time.Minute
)

// unknownRoutes records the effects of unknown routes that this process has met.
type unknownRoutes struct {
	now    func() time.Time
	random func() float64
	log    *slog.Logger
	peers  *node.Peers

	looking sync.Mutex // held by the caller that reads the table of processes

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

// worked reports whether another live process knows the route. From time to time one of the callers
// reads the table of processes for this, and the others wait for it: without that, what a process
// met during a slow read would be put off although another process knows the route.
func (u *unknownRoutes) worked(ctx context.Context, route int32) bool {
	if u.peers.Works(route) {
		u.forget(route)
		return true
	}
	u.looking.Lock()
	defer u.looking.Unlock()
	if u.peers.Works(route) {
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

// forget makes the pauses of a route start short again.
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

// pause returns how long to put an effect of the route off. Up to a quarter is random, so that a
// backlog that was met at once does not return at once.
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

// leaveUnknown hands an effect whose route this process does not know over to another live process
// that knows it. If there is none, it puts the effect off.
func (c *Client) leaveUnknown(ctx context.Context, w wakeUp, standing inbox.Standing) error {
	if c.cfg.Observe != nil {
		c.cfg.Observe(Report{Effect: w.effect, State: standing.State, Reason: reasons.Route})
	}
	if c.unknown.worked(ctx, standing.RouteID) {
		if err := c.handOvers.do(w.jobID, standing.RouteID); err != nil {
			return c.retryLater(ctx, "handing an effect over", err)
		}
		return river.JobSnooze(0)
	}
	pause := c.unknown.pause(ctx, standing.RouteID)
	if err := c.store.Postpone(ctx, w.effect, pause, reasons.Route); err != nil {
		return c.retryLater(ctx, "postponing an effect", err)
	}
	return river.JobSnooze(pause)
}
