package jobs

import (
	"cmp"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// decideSettlement turns the result of one attempt into the effect's settlement. elapsed is how long the
// attempt took. random draws the jitter of the wait.
func decideSettlement(claim *inbox.Claim, route *inbox.EffectRoute, r effect.Result, elapsed time.Duration, random func() float64) inbox.Settlement {
	s := ending(claim)
	s.Code, s.Excerpt, s.Recognised = r.Code, cmp.Or(r.Excerpt, r.Cause), r.Recognised
	if s.Cause = r.Cause; r.Outcome != effect.Done {
		s.Failure = reasons.Of(r.Reason)
	}
	repeatable := route.Idempotent || route.InDatabase
	s.Unknown = route.Idempotent && !route.InDatabase &&
		r.Outcome != effect.Done && r.Outcome != effect.Retry && r.Outcome != effect.Dead
	switch {
	case r.Outcome == effect.Done:
		s.State, s.Outcome, s.Result = inbox.EffectDone, inbox.AttemptDone, r.Stored
		if claim.Late {
			s.Reason = reasons.Late
		}
		return s
	case r.Outcome == effect.Dead:
		s.State, s.Outcome, s.Reason = inbox.EffectDead, inbox.AttemptDead, reasons.Of(r.Reason)
		return s
	case r.Outcome != effect.Retry && !repeatable:
		// The outcome is Unknown or not a valid one.
		s.State, s.Outcome, s.Reason = inbox.EffectIndeterminate, inbox.AttemptIndeterminate, reasons.Of(r.Reason)
		return s
	}
	wait, giveUp := route.Retry.Next(inbox.Failure{
		Attempt: claim.Attempt, RetryAfter: r.RetryAfter, Age: claim.StartedAt.Sub(claim.Since) + elapsed,
	}, random)
	now := claim.StartedAt.Add(elapsed)
	since := claim.UnknownSince
	if since.IsZero() && s.Unknown {
		since = claim.StartedAt
	}
	if route.Forgotten(since, now.Add(wait)) && (giveUp == "" || s.Unknown) {
		s.State, s.Outcome, s.Reason = inbox.EffectIndeterminate, inbox.AttemptIndeterminate, reasons.KeyWindow
		return s
	}
	if giveUp != "" {
		s.State, s.Outcome, s.Reason = inbox.EffectDead, inbox.AttemptDead, giveUp
		return s
	}
	s.State, s.Outcome, s.Reason, s.After = inbox.EffectRetry, inbox.AttemptRetry, reasons.Of(r.Reason), wait
	return s
}

// putBack returns a claim for which no attempt was made. No attempt is counted.
func putBack(claim *inbox.Claim, reason reasons.Reason, after time.Duration) inbox.Settlement {
	s := ending(claim)
	s.State, s.Reason, s.After = inbox.EffectRetry, reason, after
	if claim.Attempt == 1 {
		s.State = inbox.EffectPending
	}
	if claim.Trigger == inbox.TriggerManual {
		s.Reason = reasons.Resent // until an attempt has said so
	}
	return s
}

func ending(claim *inbox.Claim) inbox.Settlement {
	return inbox.Settlement{
		Effect: claim.Effect, Token: claim.Token, Trigger: claim.Trigger, StartedAt: claim.StartedAt,
		RouteID: claim.RouteID, SequenceKeyHash: claim.SequenceKeyHash,
	}
}
