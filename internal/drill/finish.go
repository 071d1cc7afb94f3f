package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

const (
	// finishLimit is how long the deliveries may take that are left after the last fault, and after them the effects.
	finishLimit = 2 * time.Minute

	// forgedEach is how many forged deliveries of each source every process gets at the end, to compare its count.
	forgedEach = 5

	// stopPatience is how long a process may take to stop in order.
	stopPatience = 30 * time.Second
)

// finish delivers the events without an acknowledgement, waits for the effects, stops the processes and checks the invariants.
func (d *drill) finish(ctx context.Context, early bool) (*Report, error) {
	timed, cancel := context.WithTimeout(ctx, finishLimit)
	defer cancel()
	if err := d.restartEnded(ctx); err != nil {
		return nil, err
	}
	for _, n := range d.stage.nodes {
		if err := n.process.WaitReady(ctx); err != nil {
			return nil, fmt.Errorf("%s did not become ready after the last fault: %w", n.Name, err)
		}
	}
	d.options.Log("delivering what is left")
	d.senders.DeliverRest(timed, d.options.Seed)
	d.options.Log("waiting for the effects")
	db, err := rig.Connect(ctx, d.options.Database, d.stage.Schema)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	left, err := rig.Rest(ctx, db, finishLimit)
	if err != nil {
		return nil, err
	}
	if left > 0 {
		d.options.Log("%d effects are not settled, and none was for %s", left, finishLimit) // the invariants report them
	}
	refusals, err := d.countRefusals(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.stopNodes(); err != nil {
		return nil, err
	}
	d.options.Log("checking")
	e := &invariant.Evidence{Sent: d.sent.Events(), Routes: routes(), Refusals: refusals, Ended: d.ended}
	for _, n := range d.faults {
		e.Faults += n
	}
	for i := range e.Routes {
		switch e.Routes[i].Kind {
		case invariant.Idempotent:
			e.Routes[i].Requests = d.stage.idempotent.Requests()
		case invariant.Once:
			e.Routes[i].Requests = d.stage.once.Requests()
		default: // the rows of the others are in the database
		}
	}
	if e.Stored, err = invariant.Read(ctx, db); err != nil {
		return nil, err
	}
	return d.report(e, early), nil
}

// refusedMetric counts the requests that a process has refused.
const refusedMetric = "oncegate_refusals_total"

// countRefusals sends forged deliveries to every process and compares how many it refuses with how many it counts.
func (d *drill) countRefusals(ctx context.Context) ([]invariant.Refusals, error) {
	var all []invariant.Refusals
	for i, n := range d.stage.nodes {
		before, err := n.process.Metrics(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name, err)
		}
		refused := d.senders.Forge(ctx, n.Public, d.options.Seed+uint64(i), forgedEach)
		after, err := n.process.Metrics(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name, err)
		}
		all = append(all, invariant.Refusals{Process: n.Name, Refused: refused, Counted: int(after[refusedMetric] - before[refusedMetric])})
	}
	return all, nil
}

// stopNodes stops all processes in order, and records those that do not.
func (d *drill) stopNodes() error {
	var errs []error
	for _, n := range d.stage.nodes {
		if err := n.process.Stop(stopPatience); err != nil {
			d.ended = append(d.ended, fmt.Sprintf("%s did not stop within %s", n.Name, stopPatience))
			errs = append(errs, n.process.Kill())
		} else if err := n.process.Err(); err != nil {
			d.ended = append(d.ended, fmt.Sprintf("%s did not stop in order: %v", n.Name, err))
		}
	}
	return errors.Join(errs...)
}
