package inbox

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// claimOrdered claims the effects of ordered routes whose turn it is. The others
// are held, superseded or otherwise moved as their order requires. In mode latest it may
// claim a newer version than was asked for.
func (e *Effects) claimOrdered(ctx context.Context, asks []orderAsk) ([]claimAnswer, error) {
	var answers []claimAnswer
	err := e.ownTx(ctx, func(conn *pgxpool.Conn, send func(context.Context, *pgx.Batch) error) (err error) {
		o := e.newOrder(send)
		ids := make([]ID, len(asks))
		for i := range asks {
			a := &asks[i]
			*a = orderAsk{effect: a.effect, token: a.token, jobID: a.jobID, routeID: a.routeID, hash: a.hash}
			ids[i] = a.effect
			s := o.streamFor(a.routeID, a.hash)
			s.asks = append(s.asks, a)
		}
		var first, last pgx.Batch
		first.Queue("BEGIN")
		o.queueLock(&first, o.streams)
		o.queueNamed(&first, lockAsked, ids)
		o.queueRead(&first, o.streams)
		if err := o.begin(ctx, &first, ids); err != nil {
			return err
		}
		if err := o.decide(ctx, ids, &last); err != nil {
			return err
		}
		tokens, read := make([]ID, len(asks)), ids
		for i := range asks {
			a := &asks[i]
			tokens[i] = a.token
			if !a.claimed.IsZero() && a.claimed != a.effect {
				read = append(slices.Clip(read), a.claimed)
			}
		}
		rows := e.queueReadClaims(&last, read, tokens)
		last.Queue("COMMIT")
		if err := send(ctx, &last); err != nil {
			return err
		}
		o.committed()
		answers = make([]claimAnswer, len(asks))
		for i := range asks {
			effect := asks[i].effect
			if !asks[i].claimed.IsZero() {
				effect = asks[i].claimed
			}
			answers[i] = rows.answer(effect, asks[i].token)
			answers[i].locked = o.streamFor(asks[i].routeID, asks[i].hash).id == 0
			if answers[i].claim != nil {
				answers[i].claim.Late = asks[i].late
			}
		}
		return nil
	})
	return answers, err
}

// ownTx runs f on a connection; f begins and ends the transaction in its batches.
func (e *Effects) ownTx(ctx context.Context, f func(conn *pgxpool.Conn, send func(context.Context, *pgx.Batch) error) error) error {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = f(conn, func(ctx context.Context, b *pgx.Batch) error { return conn.SendBatch(ctx, b).Close() })
	// A connection with an open transaction is not given back to the pool.
	if err != nil && conn.Conn().PgConn().TxStatus() != 'I' {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.claims.Timeout)
		_, _ = conn.Exec(stop, "ROLLBACK")
		cancel()
	}
	return err
}
