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

// errTakenOver: one of the attempts has been ended by somebody else, so that what
// was done for it must not stay.
var errTakenOver = errors.New("an attempt of the group was taken over")

// ActOrdered carries an effect of an ordered route out together with others that
// wait at the same moment, in two round trips. It returns [ErrUngrouped] if nothing
// of the group has happened, and [ErrAmbiguous] if that is not known.
func (e *Effects) ActOrdered(ctx context.Context, routeID int32, a OrderedAct) (Settled, error) {
	group := e.orderedActs[routeID]
	if group == nil {
		return Settled{}, fmt.Errorf("acting for effect %s: route %d is not known", a.End.Effect, routeID)
	}
	return group.do(ctx, a)
}

// actInStreams acts and settles; sent says that a COMMIT was on its way. The streams
// are locked behind the statements: no stream is locked while one of them runs.
func (e *Effects) actInStreams(ctx context.Context, conn *pgx.Conn, group []OrderedAct) (out []Settled, sent bool, err error) {
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
	if err != nil {
		return nil, false, err
	}
	if slices.Contains(o.applied, false) {
		return nil, false, errTakenOver
	}
	last.Queue("COMMIT")
	if err := o.send(ctx, &last); err != nil {
		return nil, true, err
	}
	o.committed()
	return settled(), false, nil
}
