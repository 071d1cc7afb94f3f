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

// Without a leader River schedules, rescues and cleans nothing; and what a leader
// of another version, a cleaner or a person does to jobs is done to wake-ups only.
// Whatever befalls an effect's job, the effect happens, once.
func TestNoLeaderAndNoJobIsNeeded(t *testing.T) {
	t.Parallel()
	for name, befalls := range map[string]string{
		"nothing": ``,
		"never made available, for nobody schedules":        `UPDATE river_job SET state = 'scheduled', scheduled_at = now() - interval '31 s'`,
		"never tried again":                                 `UPDATE river_job SET state = 'retryable', scheduled_at = now() - interval '31 s'`,
		"discarded by a leader that does not know the kind": `UPDATE river_job SET state = 'discarded', finalized_at = now()`,
		"cancelled by a person":                             `UPDATE river_job SET state = 'cancelled', finalized_at = now()`,
		"deleted by a cleaner":                              `DELETE FROM river_job`,
		"running for ever in a process that is gone":        `UPDATE river_job SET state = 'running', attempted_at = now() - interval '1 h', attempt = 1`,
		"of a kind that nobody knows":                       `UPDATE river_job SET kind = 'effect_of_tomorrow', state = 'discarded', finalized_at = now()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			// Not by Retry-After: that would hold up those of the target that come later.
			// So long, since the wait is drawn between 0 and this, and one of under 5 s
			// would come about by itself: 1 run in 50 with an hour.
			const never = 100_000 * time.Hour
			b.retry = inbox.RetryPolicy{Attempts: 5, Base: never, Max: never}
			const n = 1 // a target that fails holds up what comes after
			s, single := &sink{idempotent: true}, &sink{}
			first := func(s *sink) {
				s.answer = func(_ context.Context, c *effect.Call) effect.Result {
					if c.Attempt == 1 {
						return effect.Result{Outcome: effect.Retry, Reason: reasons.Connect}
					}
					return effect.Result{Outcome: effect.Done}
				}
			}
			first(s)
			first(single)
			cfg := func() jobs.Config {
				return jobs.Config{LeaderElectionDisabled: true, Senders: map[string]effect.Sender{repeatable: s, once: single}}
			}
			ids := append(b.admit(repeatable, n), b.admit(once, n)...)
			c := b.client(cfg())
			b.eventually("the first attempts", func() bool {
				return b.count(`SELECT count(*) FROM effect WHERE state = 'retry'`) == 2*n && b.count(`SELECT count(*) FROM river_job WHERE state = 'scheduled'`) == 2*n
			})
			b.stop(c)
			b.exec(`UPDATE effect SET next_at = now()`)
			if befalls == "" {
				befalls = `UPDATE river_job SET state = 'available', scheduled_at = now()`
			}
			b.exec(befalls)
			again := cfg()
			again.SweepEvery = 50 * time.Millisecond
			b.client(again)
			for _, id := range ids {
				b.eventuallyState(id, inbox.EffectDone)
				if got := s.got(id) + single.got(id); got != 2 {
					t.Errorf("effect %s was sent %d times, want twice", id, got)
				}
			}
		})
	}
}
