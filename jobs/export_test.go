package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs/effect"
)

// ReplayThrottle is what decides how fast replays may go.
type ReplayThrottle = replayThrottle

// NewReplayThrottle makes one.
func NewReplayThrottle(read Deliveries, now func() time.Time) *ReplayThrottle {
	return &replayThrottle{read: read, now: now}
}

// Next and Took are what the worker calls around a step.
func (t *replayThrottle) Next() (rest time.Duration, atMost float32) { return t.next() }

// Took counts the items of a step.
func (t *replayThrottle) Took(items int) { t.took(items) }

// MostAhead is how many wake-ups of replays may wait for a worker before a step.
const MostAhead = mostAhead

// LookAtJobs is what a process does every second in which there were wake-ups.
func LookAtJobs(ctx context.Context, pool *pgxpool.Pool) error {
	return (&analyzer{pool: pool}).look(ctx)
}

// Guard is the middleware of a client that may always work.
func Guard() rivertype.WorkerMiddleware {
	return &guard{client: &Client{cfg: Config{Fits: func() error { return nil }}}}
}

// Wants evaluates the condition of a route, and Call is the call that it makes of a claim.
var (
	Wants = (*Route).wants
	Call  = (*Route).call
)

// TraceNothing returns what an attempt does for traces.
func TraceNothing() func() {
	a := attempt{Client: &Client{}, route: &route{}, claim: &inbox.Claim{}}
	call, ctx := &effect.Call{}, context.Background()
	r := Report{Outcome: inbox.AttemptDone}
	return func() {
		a.span = a.beginTrace(ctx)
		_ = a.atTarget(ctx, call, func(context.Context) effect.Result { return effect.Result{Outcome: effect.Done} })
		a.endTrace(ctx, r)
		a.abandonTrace()
	}
}

// NewLimit returns the limiter of a target for a crew of workers.
func NewLimit(t Target, workers int64, now func() time.Time) *Limit {
	return newLimiter(t, &crew{size: workers}, now, func() float64 { return 0.5 })
}

// Limit is a limiter.
type Limit = limiter

// Enter takes a slot. If there is none, done is nil and wait says when to ask again.
func (l *limiter) Enter() (done func(effect.Result), wait time.Duration) {
	done, wait, _ = l.enter(false)
	return done, wait
}
