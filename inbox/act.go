package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// GroupedAct is an effect inside the database that is one statement, and may
// therefore share a transaction with others: each is claimed, acts and is settled
// in it.
type GroupedAct struct {
	Effect ID
	JobID  int64

	// Act returns the statement and its arguments. If the statement is empty, end says
	// how the effect ends without it.
	Act func(*Claim) (statement string, args []any, end Settlement)

	// Key returns the effect's key by recipe, or how the effect ends if it has none. It
	// is called only for effects that are about to act. If Key is nil or returns no
	// hash, the effect needs no key.
	Key func(*Claim) (hash []byte, end *Settlement)
}

// GroupedEnd is the outcome of a [GroupedAct].
type GroupedEnd struct {
	// Claim is nil if the effect was not obtained; Standing says why.
	Claim      *Claim
	Standing   Standing
	Settlement Settlement
	Settled    Settled
}

// ErrUngrouped means that a group's transaction was rolled back as a whole. Nothing of
// it has happened; the caller tries each of its effects alone.
var ErrUngrouped = errors.New("the group was given up")

// ErrAmbiguous means that it is unknown whether a group's transaction was committed.
// The next run of each of its effects must allow for both.
var ErrAmbiguous = errors.New("the group's commit is ambiguous")

// Act carries an effect out together with others of the same route that are ready at
// the same time. The transaction takes two round trips for any number of effects; any
// error in it rolls back all of them.
func (e *Effects) Act(ctx context.Context, routeID int32, a GroupedAct) (GroupedEnd, error) {
	group := e.acts[routeID]
	if group == nil {
		return GroupedEnd{}, fmt.Errorf("acting for effect %s: route %d is not known", a.Effect, routeID)
	}
	return group.Do(ctx, a)
}

// Both bounds apply to one statement; the planner's settings of the pool are for
// our own statements, not for what the user's function does.
const (
	boundGroup = `
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true),
    set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true), set_config('enable_bitmapscan', 'on', true),
    set_config('plan_cache_mode', 'auto', true)`
	unboundGroup = `
SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '5s', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true)`
)

// groupBound is how long one statement of a group may take. One that takes longer
// is tried again alone, under the limits of its target.
const groupBound = 500 * time.Millisecond

// A group grows while it is quick and shrinks when it is not, because it keeps its
// locks until all of its effects have acted, and each effect that waits for one of
// these locks occupies a worker.
const (
	minGroup       = 8
	maxGroup       = 64
	quickGroupTime = 100 * time.Millisecond
)

// runTogether runs a group of one route in one transaction, on its own connection. run
// reports in sent whether it had already sent COMMIT when it failed. Any other failure
// rolls back the whole group.
func runTogether[In, Out any](e *Effects, group *row.Group[In, Out], run func(ctx context.Context, conn *pgx.Conn, asks []In) (outs []Out, sent bool, err error)) {
	group.Run = func(ctx context.Context, asks []In) ([]Out, error) {
		conn, err := e.pool.Acquire(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUngrouped, err)
		}
		defer conn.Release()
		began := e.now()
		outs, sent, err := run(ctx, conn.Conn(), asks)
		switch took := e.now().Sub(began); {
		case err != nil || took > 4*quickGroupTime:
			group.Resize(func(n int) int { return max(n/2, 1) })
		case took < quickGroupTime && len(asks) > 1:
			group.Resize(func(n int) int { return min(n*2, maxGroup) })
		case took < quickGroupTime:
			group.Resize(func(n int) int { return max(n, minGroup) })
		}
		if err == nil {
			return outs, nil
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
		asks[i] = claimAsk{effect: a.Effect, token: e.token(), jobID: a.JobID}
	}
	var claim, act pgx.Batch
	claim.Queue("BEGIN")
	answers := e.queueClaims(&claim, known, asks)
	claim.Queue(boundGroup, fmt.Sprintf("%dms", groupBound.Milliseconds()))
	if err := conn.SendBatch(ctx, &claim).Close(); err != nil {
		return nil, false, err
	}
	ends = make([]GroupedEnd, len(group))
	acts := make([]plannedAct, len(group))
	for i, answer := range answers() {
		ends[i].Claim, ends[i].Standing = answer.claim, answer.standing
		if answer.claim != nil {
			acts[i].statement, acts[i].args, acts[i].end = group[i].Act(answer.claim)
		}
	}
	if err := e.ownTogether(ctx, conn, group, ends, acts); err != nil {
		return nil, false, err
	}
	var settlements []Settlement
	var places []int
	for i, a := range acts {
		if ends[i].Claim == nil {
			continue
		}
		if a.statement != "" {
			act.Queue(a.statement, a.args...)
		}
		ends[i].Settlement = a.end
		settlements, places = append(settlements, a.end), append(places, i)
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

// plannedAct is what one effect of a group comes to.
type plannedAct struct {
	statement string
	args      []any
	end       Settlement
}

// ownTogether asks for the keys of the effects that are about to act before any of them
// has acted, so that no group waits for a key while it has locked rows on which others
// act. An effect that does not own its key does not act; it ends as a duplicate of the
// owner.
func (e *Effects) ownTogether(ctx context.Context, conn *pgx.Conn, group []GroupedAct, ends []GroupedEnd, acts []plannedAct) error {
	var asks []ownAsk
	var places []int
	for i := range acts {
		if acts[i].statement == "" || group[i].Key == nil {
			continue
		}
		hash, end := group[i].Key(ends[i].Claim)
		switch {
		case end != nil:
			acts[i] = plannedAct{end: *end}
		case hash != nil:
			asks, places = append(asks, e.ownAsk(ends[i].Claim, hash)), append(places, i)
		}
	}
	if len(asks) == 0 {
		return nil
	}
	owners, err := ownKeys(ctx, conn, asks)
	if err != nil {
		return err
	}
	for j, owner := range owners {
		i := places[j]
		if !owner.Held { // its row is locked here
			return ErrUngrouped
		}
		if owner.Effect.IsZero() || owner.Effect == ends[i].Claim.Effect {
			continue
		}
		end := acts[i].end
		end.State, end.Outcome, end.DuplicateOf = EffectDuplicate, "", owner.Effect
		acts[i] = plannedAct{end: end}
	}
	return nil
}
