package jobs

import (
	"cmp"
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Fetch gets what an event only names, before each attempt whose request is not fixed yet.
type Fetch struct {
	Fetcher effect.Fetcher

	// Server names what the fetch asks. All routes of a process whose fetches ask one server share its breaker and the
	// pause that its Retry-After asks for.
	Server string

	// Timeout bounds one fetch. Together with the route's Timeout it must fit into the lease. It defaults to 10 s, or to
	// half of what the lease allows if that is less.
	Timeout time.Duration
}

// limitFetches makes one limiter for each server that fetches ask. A fetch runs inside an attempt, which already has a
// worker and a slot at the target, so that the limiter has only a breaker and the pause of a Retry-After.
func (c *Client) limitFetches() {
	c.fetchLimits = map[string]*limiter{}
	for _, r := range c.routes {
		if r.Fetch == nil {
			continue
		}
		if c.fetchLimits[r.Fetch.Server] == nil && c.cfg.After != nil {
			c.fetchLimits[r.Fetch.Server] = c.cfg.After.fetchLimits[r.Fetch.Server]
		}
		if c.fetchLimits[r.Fetch.Server] == nil {
			c.fetchLimits[r.Fetch.Server] = newLimiter(Target{Greedy: true}, &crew{}, c.now, c.random)
		}
		r.fetchLimit = c.fetchLimits[r.Fetch.Server]
	}
}

// mustFetch reports whether an attempt must fetch. It need not if the request of an effect outside the database is
// fixed: the answer that the request was made of is stored then, because the target must never get two payloads under
// one key. Nor may the effect's key change once it is recorded. An item of a list is rendered with the answer that its
// list fetched.
func (r *route) mustFetch(claim *inbox.Claim) bool {
	switch {
	case r.Fetch == nil, claim.Item > 0 && claim.Rendered != nil:
		return false
	case claim.Fetched == nil:
		return true
	case claim.KeyHash != nil && r.Key != nil && r.Key.ReadsFetched():
		return false
	case r.stored.InDatabase:
		return true
	}
	return claim.Rendered == nil && claim.UnknownSince.IsZero()
}

// forgetUnsent clears the time since which the outcome of an effect is unknown, if no attempt can have sent anything:
// an attempt stores what it has fetched before it sends, and nothing is stored.
func (a attempt) forgetUnsent() {
	if a.route.Fetch != nil && a.claim.Fetched == nil && a.claim.Rendered == nil && a.claim.RouteVersion == a.route.Version {
		a.claim.UnknownSince = time.Time{}
	}
}

// fetchFirst makes the route's fetch and stores the answer. A settlement ends the attempt, because the fetch failed or
// may not be made now. held is false if this process has lost the claim.
func (a attempt) fetchFirst(ctx context.Context) (s *inbox.Settlement, held bool) {
	claim, fetch := a.claim, a.route.Fetch
	if s := a.checkContent(ctx); s != nil {
		return s, true
	}
	switch {
	case !a.route.mustFetch(claim):
		return nil, true
	case claim.Event.BodyGone:
		s := a.ended(ctx, effect.Result{Outcome: effect.Dead, Reason: string(claim.Event.GoneReason)})
		return &s, true
	}
	left, wait, reason := a.route.fetchLimit.enter(true)
	if left == nil {
		s := a.turnAway(reason, wait)
		return &s, true
	}
	var result effect.Result
	defer func() { left(result) }()
	lease := a.route.stored.Lease
	timed, cancel := context.WithTimeout(ctx, min(fetch.Timeout, lease-margin(lease)-a.elapsed()))
	defer cancel()
	answer, result := safeFetch(timed, fetch.Fetcher, a.route.call(claim))
	if result.Outcome != effect.Done {
		s := a.ended(ctx, fetchFailure(result))
		return &s, true
	}
	mine, err := a.store.KeepFetched(timed, claim, answer)
	if err != nil {
		a.log.WarnContext(ctx, "storing what was fetched", "effect", claim.Effect.String(), "error", clean(err.Error()))
		s := putBack(claim, reasons.Unavailable, a.faultPause(ctx))
		return &s, true
	}
	claim.Fetched = answer
	return nil, mine
}

// fetchFailure turns the result of a fetch into the result of its attempt. The attempt certainly did not happen.
func fetchFailure(r effect.Result) effect.Result {
	reason := string(reasons.FetchFailed)
	if r.Outcome != effect.Retry { // a panic or an invalid outcome is final, because a retry would repeat it
		r.Outcome, reason = effect.Dead, string(reasons.FetchRefused)
	}
	r.Cause = "fetch: " + cmp.Or(r.Cause, r.Reason)
	if r.Reason != reasons.Mapping {
		r.Reason = reason
	}
	return r
}

// unfetched reports whether nothing is known of an effect's request because the attempt would fetch first, and no answer
// is stored.
func (r *Route) unfetched(claim *inbox.Claim) bool {
	return r.Fetch != nil && claim.Fetched == nil && !(claim.Item > 0 && claim.Rendered != nil)
}

func safeFetch(ctx context.Context, fetcher effect.Fetcher, call *effect.Call) (answer []byte, result effect.Result) {
	defer func() {
		if recover() != nil {
			answer, result = nil, effect.Result{Outcome: effect.Dead, Reason: string(reasons.Panic)}
		}
	}()
	return fetcher.Fetch(ctx, call)
}
