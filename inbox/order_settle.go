package inbox

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// settleOrderedGroup ends attempts of ordered routes, in a transaction of its own.
func (e *Effects) settleOrderedGroup(ctx context.Context, group []Settlement) ([]Settled, error) {
	var out []Settled
	err := e.ownTx(ctx, func(_ *pgxpool.Conn, send func(context.Context, *pgx.Batch) error) error {
		o := e.newOrder(send)
		var first, last pgx.Batch
		first.Queue("BEGIN")
		settled, err := o.settle(ctx, &first, &last, group)
		if err != nil {
			return err
		}
		last.Queue("COMMIT")
		if err := send(ctx, &last); err != nil {
			return err
		}
		o.committed()
		out = settled()
		return nil
	})
	return out, err
}

// settleOrderedTx does it in the caller's transaction.
func (e *Effects) settleOrderedTx(ctx context.Context, db batcher, group []Settlement) ([]Settled, error) {
	o := e.newOrder(func(ctx context.Context, b *pgx.Batch) error { return db.SendBatch(ctx, b).Close() })
	var first, last pgx.Batch
	settled, err := o.settle(ctx, &first, &last, group)
	if err != nil {
		return nil, err
	}
	if err := o.send(ctx, &last); err != nil {
		return nil, err
	}
	o.committed()
	return settled(), nil
}

// settle ends the effects, decides what follows for their streams and queues that on
// last. What it returns is to be called when last has been read.
func (o *order) settle(ctx context.Context, first, last *pgx.Batch, group []Settlement) (func() []Settled, error) {
	ids := make([]ID, len(group))
	for i := range group {
		ids[i] = group[i].Effect
		s := o.stream(group[i].RouteID, group[i].SequenceKeyHash)
		if group[i].Chain != 0 && s.chain == nil {
			s.chain = &orderAsk{token: newToken(), jobID: group[i].Chain, routeID: group[i].RouteID}
		}
	}
	o.queueLock(first)
	applied := o.store.queueEnd(first, group)
	o.applied = applied
	o.queueNamed(first, readAsked, ids)
	o.queueRead(first, o.streams)
	if err := o.begin(ctx, first, ids); err != nil {
		return nil, err
	}
	if err := o.unchain(ctx, group, applied, last); err != nil {
		return nil, err
	}
	if err := o.decide(ctx, ids, last); err != nil {
		return nil, err
	}
	var next, tokens []ID
	for i := range group {
		if c := o.stream(group[i].RouteID, group[i].SequenceKeyHash).chain; c != nil && !c.claimed.IsZero() {
			next, tokens = append(next, c.claimed), append(tokens, c.token)
		}
	}
	var claims claimRows
	var following map[ID][]aheadRow
	if len(next) > 0 {
		claims, following = o.store.queueReadClaims(last, next, tokens), o.store.queueReadAhead(last, next)
	}
	standings := queueStandings(last, ids)
	return func() []Settled {
		out := make([]Settled, len(group))
		for i, s := range group {
			out[i] = Settled{Applied: applied[i], Standing: standings[s.Effect]}
			stream := o.stream(s.RouteID, s.SequenceKeyHash)
			if c := stream.chain; c != nil && s.Chain != 0 && !c.claimed.IsZero() {
				out[i].Next = claims.answer(c.claimed, c.token).claim
				if out[i].Next != nil {
					out[i].Next.Late = c.late
					out[i].Next.ahead = stream.aheadOf(out[i].Next, following[c.claimed])
				}
				c.claimed = ID{} // one settlement goes on with it
			}
		}
		return out
	}, nil
}

// unchain gives jobs of their own to effects that wait again: the job that carried
// them in a chain is another's. A stream of which one waits is not gone on with, so
// that a job never has to wake one effect while it carries another.
func (o *order) unchain(ctx context.Context, group []Settlement, applied []bool, last *pgx.Batch) error {
	var w orderWrites
	for i, s := range group {
		if applied[i] && !s.State.Waiting() {
			continue
		}
		o.stream(s.RouteID, s.SequenceKeyHash).chain = nil
		if applied[i] && s.NewJob {
			w.moves = append(w.moves, orderMove{id: s.Effect, newJob: true})
		}
	}
	if err := o.jobs(ctx, &w); err != nil {
		return err
	}
	w.queueMoves(last)
	return nil
}
