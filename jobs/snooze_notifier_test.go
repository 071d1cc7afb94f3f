package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// An effect that is retried soon is announced when it is due, and does not wait
// until somebody polls: that would take more than a minute here.
func TestAShortSnoozeNeedsNoPolling(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.retry = inbox.RetryPolicy{Attempts: 5, Base: 100 * time.Millisecond, Max: 300 * time.Millisecond}
	s := &sink{idempotent: true, answer: func(_ context.Context, call *effect.Call) effect.Result {
		if call.Attempt < 4 {
			return effect.Result{Outcome: effect.Retry, Reason: reasons.Status503}
		}
		return effect.Result{Outcome: effect.Done}
	}}
	id := b.admit(repeatable, 1)[0]
	b.client(jobs.Config{Senders: senders(s), FetchPollInterval: 30 * time.Second})
	b.within(time.Minute, "the effect done", func() bool { return b.row(id).State == string(inbox.EffectDone) })
}
