package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// GroupedAct is an effect inside the database that is one statement, and may
// therefore share a transaction with others: each is claimed, acts and is settled
// in it.
type GroupedAct struct {
	Effect ID
	JobID  int64

	// Act gives the statement and its arguments; or, with an empty statement, how the
	// effect ends without it.
	Act func(*Claim) (statement string, args []any, end Settlement)
}

// GroupedEnd is what became of a [GroupedAct].
type GroupedEnd struct {
	// Claim is nil if the effect was not obtained; Standing says why.
	Claim      *Claim
	Standing   Standing
	Settlement Settlement
	Settled    Settled
}

// ErrUngrouped is a group's transaction that was given up, whole: nothing of it
// has happened, and each of its effects is to be tried by itself.
var ErrUngrouped = errors.New("the group was given up")

// ErrAmbiguous is a group's transaction of which is not known whether it was
// committed. The next run of each of its effects is to be careful.
var ErrAmbiguous = errors.New("the group's commit is ambiguous")

// Act carries an effect out together with others of the same route that wait at
// the same moment. The transaction is two round trips, however many they are; any
// error in it gives up all of it.
func (e *Effects) Act(ctx context.Context, routeID int32, a GroupedAct) (GroupedEnd, error) {
	group := e.acts[routeID]
	if group == nil {
		return GroupedEnd{}, fmt.Errorf("acting for effect %s: route %d is not known", a.Effect, routeID)
	}
	return group.do(ctx, a)
}

// Both bounds apply to one statement; the planner's settings of the pool are for
// our own statements, not for what the user's function does.
const (
	boundGroup = `
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true),
    set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true), set_config('plan_cache_mode', 'auto', true)`
	unboundGroup = `
SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '5s', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)`
)

// groupBound is how long one statement of a group may take. One that takes longer
// is tried again alone, under the limits of its target.
const groupBound = 500 * time.Millisecond

// A group grows while it is quick and shrinks when it is not: what it locks is
// locked until all of it has acted, and what waits for it holds a worker.
const (
	leastTogether = 8
	mostTogether  = 64
	quickGroup    = 100 * time.Millisecond
)

func (e *Effects) actGroup(routeID int32, group *grouped[GroupedAct, GroupedEnd]) func(ctx context.Context, asks []GroupedAct) ([]GroupedEnd, error) {
	var known knownRoutes
	known.add(routeID, e.routes[routeID].Lease)
	return func(ctx context.Context, asks []GroupedAct) ([]GroupedEnd, error) {
		conn, err := e.pool.Acquire(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUngrouped, err)
		}
		defer conn.Release()
		began := e.now()
		ends, sent, err := e.actTogether(ctx, conn.Conn(), known, asks)
		switch took := e.now().Sub(began); {
		case err != nil || took > 4*quickGroup:
			group.resize(func(n int) int { return max(n/2, 1) })
		case took < quickGroup && len(asks) > 1:
			group.resize(func(n int) int { return min(n*2, mostTogether) })
		case took < quickGroup:
			group.resize(func(n int) int { return max(n, leastTogether) })
		}
		if err == nil {
			return ends, nil
		}
		// A connection with an open transaction is not given back to the pool.
		if conn.Conn().PgConn().TxStatus() != 'I' {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_, _ = conn.Exec(stop, "ROLLBACK")
			cancel()
		}
		var pgErr *pgconn.PgError
		if refused := errors.As(err, &pgErr) && pgErr.SeverityUnlocalized == "ERROR"; sent && !refused {
			return nil, fmt.Errorf("%w: %w", ErrAmbiguous, err)
		}
		// Only the SQLSTATE is kept, since messages quote content; the connection's own
		// errors quote none.
		if pgErr != nil {
			return nil, fmt.Errorf("%w: SQLSTATE %s", ErrUngrouped, pgErr.Code)
		}
		return nil, fmt.Errorf("%w: %w", ErrUngrouped, err)
	}
}

// actTogether claims, acts and settles; sent says that a COMMIT was on its way.
func (e *Effects) actTogether(ctx context.Context, conn *pgx.Conn, known knownRoutes, group []GroupedAct) (ends []GroupedEnd, sent bool, err error) {
	asks := make([]claimAsk, len(group))
	for i, a := range group {
		asks[i] = claimAsk{effect: a.Effect, token: newToken(), jobID: a.JobID}
	}
	var claim, act pgx.Batch
	claim.Queue("BEGIN")
	answers := e.queueClaims(&claim, known, asks)
	claim.Queue(boundGroup, fmt.Sprintf("%dms", groupBound.Milliseconds()))
	if err := conn.SendBatch(ctx, &claim).Close(); err != nil {
		return nil, false, err
	}
	ends = make([]GroupedEnd, len(group))
	var settlements []Settlement
	var places []int
	for i, answer := range answers() {
		ends[i].Claim, ends[i].Standing = answer.claim, answer.standing
		if answer.claim == nil {
			continue
		}
		statement, args, end := group[i].Act(answer.claim)
		if statement != "" {
			act.Queue(statement, args...)
		}
		ends[i].Settlement = end
		settlements, places = append(settlements, end), append(places, i)
	}
	act.Queue(unboundGroup)
	settled := func() []Settled { return nil }
	if len(settlements) > 0 {
		settled = e.queueSettle(&act, settlements, nil)
	}
	act.Queue("COMMIT")
	if err := conn.SendBatch(ctx, &act).Close(); err != nil {
		return nil, true, err
	}
	for i, s := range settled() {
		ends[places[i]].Settled = s
	}
	return ends, true, nil
}
