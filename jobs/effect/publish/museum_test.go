package publish_test

import (
	"context"
	"flag"
	"strconv"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
)

var exhibit = flag.String("exhibit", "", "the wrong kind that an exhibit puts before the suite")

// impatient says that a message is published before the broker has acknowledged it.
type impatient struct{ effect.Sender }

func (i impatient) Send(ctx context.Context, call *effect.Call) effect.Result {
	result := i.Sender.Send(ctx, call)
	if result.Outcome == effect.Unknown {
		return effect.Result{Outcome: effect.Done}
	}
	return result
}

// freshIDs publishes each attempt under an id of its own, which no consumer recognises.
type freshIDs struct{ effect.Sender }

func (f freshIDs) Send(ctx context.Context, call *effect.Call) effect.Result {
	call.Key += strconv.Itoa(call.Attempt)
	return f.Sender.Send(ctx, call)
}

// refuses takes everything that the broker says for good.
func refuses(r *effect.Result) {
	if r.Outcome == effect.Retry {
		r.Outcome = effect.Dead
	}
}

// repeatsAll retries also what the broker will never take.
func repeatsAll(r *effect.Result) {
	if r.Outcome == effect.Dead {
		r.Outcome = effect.Retry
	}
}

func wrongPublish(how string, right effect.Sender) effect.Sender {
	switch how {
	case "impatient":
		return impatient{right}
	case "fresh ids":
		return freshIDs{right}
	case "refuses":
		return effecttest.Changed(right, refuses)
	case "repeats all":
		return effecttest.Changed(right, repeatsAll)
	}
	return effecttest.Changed(right, effecttest.RepeatUnknown)
}

func exhibitOf(t *testing.T, b effecttest.Broker) {
	t.Helper()
	if *exhibit == "" {
		return // nothing is on show
	}
	effecttest.Run(t, effecttest.Publish(func(tb testing.TB, to effecttest.PublishTo) effect.Sender {
		return wrongPublish(*exhibit, newPublish(tb, to))
	}, b))
}

func TestExhibitKafka(t *testing.T) { exhibitOf(t, effecttest.Brokers()[0]) } //nolint:paralleltest // Run makes it parallel
func TestExhibitNATS(t *testing.T)  { exhibitOf(t, effecttest.Brokers()[1]) } //nolint:paralleltest // Run makes it parallel

func TestTheSuiteFailsWrongPublishers(t *testing.T) {
	t.Parallel()
	after := []effecttest.Topic{effecttest.BreaksAfter, effecttest.StallsAfter, effecttest.HalfReply, effecttest.SlowReply}
	for _, test := range []string{"TestExhibitKafka", "TestExhibitNATS"} {
		for exhibit, fails := range map[string][]effecttest.Topic{
			"impatient":       after,
			"repeats unknown": after,
			"fresh ids":       {effecttest.Repeats},
			"refuses":         {effecttest.Later, effecttest.Unreachable, effecttest.Forbidden, effecttest.BreaksBefore},
			"repeats all":     {effecttest.Refuses},
		} {
			t.Run(test+"/"+exhibit, func(t *testing.T) {
				t.Parallel()
				effecttest.Fails(t, test, exhibit, fails...)
			})
		}
	}
}
