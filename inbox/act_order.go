package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// OrderedAct is an effect of an ordered route that is one statement inside the
// database. Its claim is committed; the statement and the settlement share a
// transaction with others, each of another stream.
type OrderedAct struct {
	Statement string
	Args      []any

	// End settles the effect; its token is the fence.
	End Settlement
}

// errTakenOver means that another process has ended one of the attempts, so the work
// done for it must be rolled back.
var errTakenOver = errors.New("an attempt of the group was taken over")

// ActOrdered carries an effect of an ordered route out together with others that are
// ready at the same time, in two round trips. It returns [ErrUngrouped] if nothing of
// the group has happened, and [ErrAmbiguous] if that is unknown. It returns [ErrLocked]
// if nothing of this effect has happened because another transaction has locked its
// stream or its row; the others of the group went ahead without it.
func (e *Effects) ActOrdered(ctx context.Context, routeID int32, a OrderedAct) (Settled, error) {
	group := e.orderedActs[routeID]
	if group == nil {
		return Settled{}, fmt.Errorf("acting for effect %s: route %d is not known", a.End.Effect, routeID)
	}
	settled, err := group.Do(ctx, a)
	if err == nil && settled.locked {
		e.locked.report(ctx, e.pool, a.End.RouteID, a.End.SequenceKeyHash)
		return Settled{}, fmt.Errorf("acting for effect %s: %w", a.End.Effect, ErrLocked)
	}
	return settled, err
}

// actInStreams acts and settles; sent says that COMMIT was already sent. It learns only
// after the statements which streams are locked by other transactions. It then rolls
// everything back and runs the remaining effects again without the locked ones.
func (e *Effects) actInStreams(ctx context.Context, conn *pgx.Conn, group []OrderedAct) (out []Settled, sent bool, err error) {
	out = make([]Settled, len(group))
	places := make([]int, len(group))
	for i := range places {
		places[i] = i
	}
	for len(places) > 0 {
		part := make([]OrderedAct, len(places))
		for i, at := range places {
			part[i] = group[at]
		}
		settled, tried, sent, err := e.actInObtainedStreams(ctx, conn, part)
		if err != nil {
			return nil, sent, err
		}
		if settled != nil {
			for i, at := range places {
				out[at] = settled[i]
			}
			return out, false, nil
		}
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			return nil, false, err
		}
		var rest []int
		for i, at := range places {
			if out[at].locked = !tried[i]; tried[i] {
				rest = append(rest, at)
			}
		}
		places = rest
	}
	return out, false, nil
}

// actInObtainedStreams acts and settles if it obtains all streams. If not, it settles
// nothing, and tried says which streams it obtained. It locks the streams after the
// statements, so that no stream is locked while a statement runs.
func (e *Effects) actInObtainedStreams(ctx context.Context, conn *pgx.Conn, group []OrderedAct) (out []Settled, tried []bool, sent bool, err error) {
	o := e.newOrder(func(ctx context.Context, b *pgx.Batch) error { return conn.SendBatch(ctx, b).Close() })
	var first, last pgx.Batch
	first.Queue("BEGIN")
	first.Queue(boundGroup, fmt.Sprintf("%dms", groupBound.Milliseconds()))
	ends := make([]Settlement, len(group))
	for i, a := range group {
		first.Queue(a.Statement, a.Args...)
		ends[i] = a.End
	}
	first.Queue(unboundGroup)
	settled, err := o.settle(ctx, &first, &last, ends)
	switch {
	case err != nil:
		return nil, nil, false, err
	case slices.Contains(o.tried, false):
		return nil, o.tried, false, nil
	case slices.Contains(o.applied, false):
		return nil, nil, false, errTakenOver
	}
	last.Queue("COMMIT")
	if err := o.send(ctx, &last); err != nil {
		return nil, nil, true, err
	}
	o.committed()
	return settled(), o.tried, false, nil
}
