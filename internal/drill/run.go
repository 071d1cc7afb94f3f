package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/drill/sender"
)

// drill is one run.
type drill struct {
	options Options
	run     string
	stage   *stage
	sent    *ledger.Sent
	senders *sender.Senders
	faults  map[Fault]int
	ended   []string // processes that ended by themselves
}

// senderCount is the number of senders at the highest rate, and perSender the number of deliveries a second of one sender
// at a lower one.
const (
	senderCount = 40
	perSender   = 5
)

// Run runs a drill. The report is nil if the drill could not be finished. In that case Run has removed the schema and the
// directory, unless the options say to keep them.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.At == nil {
		o.At = func(time.Duration) {}
	}
	began := time.Now()
	d := &drill{options: o, run: rig.RunID(), sent: ledger.NewSent(), faults: map[Fault]int{}}
	for _, f := range o.Faults {
		d.faults[f] = 0
	}
	o.Log("making schema oncegate_drill_%s and starting %d processes", d.run, o.Nodes)
	if d.stage, err = newStage(ctx, &o, d.run); err != nil {
		if d.stage != nil {
			err = errors.Join(err, d.stage.End(), d.remove(ctx))
		}
		return nil, err
	}
	r, err := d.play(ctx)
	err = errors.Join(err, d.stage.End())
	if err == nil {
		r.Seconds = time.Since(began).Seconds()
	}
	if o.Keep || err == nil && !r.Held {
		if err == nil {
			r.Schema, r.Logs = d.stage.Schema, d.stage.host.Dir
		}
		return r, err
	}
	return r, errors.Join(err, d.remove(ctx))
}

// remove drops the schema and removes the directory.
func (d *drill) remove(ctx context.Context) error {
	return errors.Join(d.stage.dropSchema(ctx), os.RemoveAll(d.stage.host.Dir))
}

// play delivers and breaks things for the length of the drill, and finishes.
func (d *drill) play(ctx context.Context) (*Report, error) {
	count := min(max(d.options.Rate/perSender, 1), senderCount)
	d.senders = sender.New(sender.Config{
		Run: d.run, Ledger: d.sent, Sources: sources(), Addresses: d.stage.addresses(), Count: count,
		Pause: time.Duration(float64(time.Second) * float64(count) * deliveriesPerSend / float64(d.options.Rate)), Ordered: true,
	})
	playing, stop := context.WithCancel(ctx)
	defer stop()
	d.options.Log("delivering %d a second for %s", d.options.Rate, d.options.Length)
	d.senders.Start(playing, d.options.Seed)
	broke := make(chan error, 1)
	go func() { broke <- d.breakThings(playing, rig.Random(d.options.Seed, 1<<32)) }()
	err := d.waitForEnd(ctx, broke)
	early := errors.Is(err, errEnough)
	stop()
	if err == nil || early {
		err = <-broke
	}
	d.senders.Wait()
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	return d.finish(ctx, early)
}

// deliveriesPerSend is the mean number of deliveries that a sender makes at once: of a hundred, fifteen events are sent
// two to four times.
const deliveriesPerSend = 1.3

var errEnough = errors.New("the drill was ended early")

// waitForEnd returns nil when the length of the drill has passed, and errEnough if it is ended early. If a fault could
// not be made, it returns that error.
func (d *drill) waitForEnd(ctx context.Context, broke <-chan error) error {
	began := time.Now()
	end := time.After(d.options.Length)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-end:
			d.options.At(d.options.Length)
			return nil
		case <-tick.C:
			d.options.At(time.Since(began))
		case <-d.options.Enough:
			return errEnough
		case <-ctx.Done():
			return ctx.Err()
		case err := <-broke:
			if err != nil {
				return fmt.Errorf("breaking things: %w", err)
			}
			broke = nil // no faults
		}
	}
}
