package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/sleep"
)

type claimAsk struct {
	effect, token ID
	jobID         int64
}

type claimAnswer struct {
	claim    *Claim
	standing Standing
	hash     []byte // of the sequence key
	numbered bool
	locked   bool // another transaction has locked its stream
}

// Claim claims an effect of an outside kind, or of an ordered route, for one attempt.
// The claim is committed, together with those of other workers, before Claim returns.
// The claim is nil if the effect is not due, is at rest or settled, belongs to another
// worker, has to wait for another effect of its sequence, is of an unordered route
// inside the database, or is of a route that is paused or that this process does not
// know; Standing says which. In mode latest the claim is of the newest version of the effect's key, if that
// one is due.
func (e *Effects) Claim(ctx context.Context, effect ID, jobID int64) (*Claim, Standing, error) {
	answer, err := e.claims.Do(ctx, claimAsk{effect: effect, token: e.token(), jobID: jobID})
	if err == nil && answer.claim == nil {
		answer, err = e.claimInOrder(ctx, effect, jobID, answer)
	}
	if err != nil {
		return nil, Standing{}, fmt.Errorf("claiming effect %s: %w", effect, err)
	}
	return answer.claim, answer.standing, nil
}

// claimInOrder claims an effect of an ordered route, of any kind; asked is the answer
// of the first claim. An effect without a place in an order (its route accepted it
// without a key or a number) is claimed like an unordered one.
func (e *Effects) claimInOrder(ctx context.Context, effect ID, jobID int64, asked claimAnswer) (claimAnswer, error) {
	at := asked.standing
	route, known := e.routes[at.RouteID]
	newest := at.State == EffectSuperseded && route.Order.Mode == sequence.Latest // its wake-up is there for the newest version
	if !at.Found || !known || e.paused(at.RouteID) || !route.Order.Ordered() || at.Wait > 0 || !at.State.Waiting() && at.State != EffectHeld && !newest {
		return asked, nil
	}
	if asked.hash == nil || !asked.numbered {
		if !at.State.Waiting() {
			return asked, nil // held until a person decides
		}
		return e.unnumbered.Do(ctx, claimAsk{effect: effect, token: e.token(), jobID: jobID})
	}
	return e.claimInStream(ctx, orderAsk{effect: effect, token: e.token(), jobID: jobID, routeID: at.RouteID, hash: asked.hash})
}

// claimInStream asks a few times for an effect whose stream is locked, since it may
// just be busy. A stream that has been locked for longer is asked for by each wake-up
// once.
func (e *Effects) claimInStream(ctx context.Context, ask orderAsk) (claimAnswer, error) {
	for pause := 2 * time.Millisecond; ; pause *= 4 {
		answer, err := e.ordered.Do(ctx, ask)
		if row.IsLocked(err) {
			answer, err = claimAnswer{locked: true, standing: Standing{Found: true, State: EffectPending, RouteID: ask.routeID, JobID: ask.jobID}}, nil
		}
		if err != nil || !answer.locked {
			return answer, err
		}
		age := e.locked.report(ctx, e.pool, ask.routeID, ask.hash)
		if pause > 50*time.Millisecond || age > time.Second {
			answer.standing.Locked = avoidFor(age)
			return answer, nil
		}
		if err := sleep.For(ctx, pause); err != nil {
			return claimAnswer{}, err
		}
	}
}

// ClaimTx claims an effect of a kind inside the database in the transaction that will
// also act and settle. It does not wait for a row that another transaction has locked:
// the claim is then nil.
func (e *Effects) ClaimTx(ctx context.Context, tx pgx.Tx, effect ID, jobID int64, routeID int32) (*Claim, Standing, error) {
	route, ok := e.routes[routeID]
	if !ok {
		return nil, Standing{}, fmt.Errorf("claiming effect %s: route %d is not known", effect, routeID)
	}
	var known knownRoutes
	known.add(routeID, route.Lease)
	answers, err := e.claimEffects(ctx, tx, known, []claimAsk{{effect: effect, token: e.token(), jobID: jobID}})
	if err != nil {
		return nil, Standing{}, fmt.Errorf("claiming effect %s: %w", effect, err)
	}
	return answers[0].claim, answers[0].standing, nil
}

// ErrNoConnection is returned when every connection was in use for as long as the
// caller would wait: nothing was begun.
var ErrNoConnection = errors.New("no connection was free in time")

// Begin begins a transaction in which an effect inside the database acts. It waits for
// a connection for so long at most, and then returns [ErrNoConnection].
func (e *Effects) Begin(ctx context.Context, atMost time.Duration) (pgx.Tx, error) {
	timed, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tx, err := e.pool.Begin(timed)
	if err != nil && timed.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: %w", ErrNoConnection, err)
	}
	return tx, err
}

// FenceTx locks a claimed effect in the transaction that will act and settle. It
// reports false if the claim is no longer the caller's. It only reads an effect of a
// stream, because its stream must be locked first. There the settlement is the fence,
// and the caller must roll back if the settlement is not applied.
func (e *Effects) FenceTx(ctx context.Context, tx pgx.Tx, claim *Claim) (bool, error) {
	var held bool
	fence := fenceEffect
	if e.routes[claim.RouteID].Order.Ordered() {
		fence = readEffectStanding
	}
	if err := tx.QueryRow(ctx, fence, claim.Effect, claim.Token).Scan(&held); err != nil {
		return false, fmt.Errorf("fencing effect %s: %w", claim.Effect, err)
	}
	return held, nil
}

// An aggregate over the locked row, so that none is an answer and not an error.
const fenceEffect = `
WITH held AS MATERIALIZED (
    SELECT id FROM effect WHERE id = $1 AND lease_token = $2 FOR UPDATE)
SELECT count(*) = 1 FROM held`

const readEffectStanding = `
SELECT count(*) = 1 FROM effect WHERE id = $1 AND lease_token = $2`

func (e *Effects) claimGroup(ctx context.Context, asks []claimAsk) ([]claimAnswer, error) {
	return e.claimEffects(ctx, e.pool, e.running(e.outside), asks)
}

// Rows are locked in the order of their ids. The statement skips a row that another
// transaction has locked, because that transaction will end it. It stores the job that
// woke us as the effect's job, so that the sweeper watches that one. The condition for
// due effects is inside a coalesce, so that no index serves it: with statistics from a
// time when nothing was due, the planner would walk all effects that are due now for
// each ask.
const claimDue = `
WITH due AS MATERIALIZED (
    SELECT e.id, a.token, a.job_id, now() + r.lease * interval '1 microsecond' AS lease_until
    FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS a (id, token, job_id)
    JOIN effect e ON e.id = a.id
    JOIN unnest($4::int[], $5::bigint[]) AS r (route_id, lease) ON r.route_id = e.route_id
    WHERE coalesce(e.state IN ('pending', 'retry') AND e.next_at <= now(), false)
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED)
UPDATE effect e
SET state = 'claimed', lease_token = d.token, lease_until = d.lease_until, next_at = d.lease_until,
    job_id = d.job_id, attempts = e.attempts + 1, send_started_at = NULL
FROM due d
WHERE e.id = d.id`

func (e *Effects) claimEffects(ctx context.Context, db row.Batcher, known knownRoutes, asks []claimAsk) ([]claimAnswer, error) {
	var b pgx.Batch
	answers := e.queueClaims(&b, known, asks)
	// Close answers for the commit.
	if err := db.SendBatch(ctx, &b).Close(); err != nil {
		return nil, err
	}
	return answers(), nil
}

// queueClaims queues the statements. The caller calls the returned function after it
// has read their results.
func (e *Effects) queueClaims(b *pgx.Batch, known knownRoutes, asks []claimAsk) func() []claimAnswer {
	ids, tokens, jobs := make([]ID, len(asks)), make([]ID, len(asks)), make([]int64, len(asks))
	for i, a := range asks {
		ids[i], tokens[i], jobs[i] = a.effect, a.token, a.jobID
	}
	b.Queue(claimDue, ids, tokens, jobs, known.ids, known.leases)
	rows := e.queueReadClaims(b, ids, tokens)
	return func() []claimAnswer {
		answers := make([]claimAnswer, len(asks))
		for i, a := range asks {
			answers[i] = rows.answer(a.effect, a.token)
		}
		return answers
	}
}
