package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/jsonspan"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// dryRun asks one target what it would do, within the limits of its attempts.
type dryRun struct {
	runner   *forward.DryRunner
	limit    *jobs.TargetLimit
	volatile [][]string
}

func newDryRun(t *config.Target, limit jobs.Target, now func() time.Time) (*dryRun, error) {
	cfg := t.DryRunConfig()
	cfg.Values, cfg.Now = addressValues(t.DryRun.Values), now
	if body := t.DryRun.Body; body != nil {
		cfg.Body = func(call *effect.Call) ([]byte, error) { return body.JSON(jobs.RequestInput(call)) }
	}
	runner, err := forward.NewDryRunner(cfg)
	if err != nil {
		return nil, err
	}
	return &dryRun{runner: runner, limit: jobs.NewTargetLimit(limit, now), volatile: t.DryRun.VolatilePaths()}, nil
}

// maxKept bounds the bytes stored for the steps of a page until their targets are asked, because no target is asked
// while a database transaction is open.
const maxKept = 64 << 20

// keptQuestions are the questions for targets, by effect.
type keptQuestions struct {
	dryRuns map[string]*dryRun
	byID    map[inbox.ID]*keptQuestion
	bytes   int
}

// keptQuestion is the question for one target.
type keptQuestion struct {
	target string
	call   *effect.DryCall // nil if it cannot be asked, because of why
	why    string
	stored []byte // what was kept of the reply
	reason reasons.Reason
	hides  func(path string) bool
}

func newKeptQuestions(dryRuns map[string]*dryRun) *keptQuestions {
	return &keptQuestions{dryRuns: dryRuns, byID: map[inbox.ID]*keptQuestion{}}
}

// keep stores the question about a step for the target of today's route. A nil receiver stores nothing.
func (k *keptQuestions) keep(j *Judge, s *comparing) {
	if k == nil || s.route == nil || k.dryRuns[s.route.today.Target] == nil {
		return
	}
	q := &keptQuestion{target: s.route.today.Target, stored: s.effect.Result, reason: s.effect.Reason}
	k.byID[s.effect.Effect] = q
	if s.event.source == nil || s.effect.Lost || s.event.Event.BodyGone || !s.route.inbox.Matches(s.event.Event.Type) {
		q.why = "there is nothing that would be sent today"
		return
	}
	q.hides = s.event.source.redact.hides
	call, preview := j.previewer.DryCall(claimOf(s.event, s.effect, j.cfg.Now()), "dry_"+rand.Text())
	switch {
	case preview.Items > 1:
		q.why = "a list becomes several requests"
	case preview.Unfetched:
		q.why = unfetched
	case call == nil:
		q.why = cannotRender(preview)
	case k.bytes+callSize(call, q.stored) > maxKept:
		q.why = fmt.Sprintf("the steps of this page have more than %d MiB: compare fewer at once with --limit", maxKept>>20)
	default:
		k.bytes += callSize(call, q.stored)
		q.call = call
	}
}

func callSize(call *effect.DryCall, stored []byte) int {
	return len(call.Event.Body) + len(call.Today.Body) + len(stored)
}

// ask asks the target of a step. It returns nil if the target has no dry run.
func (k *keptQuestions) ask(ctx context.Context, s *replay.RunStep) *replay.StepDryRun {
	q := k.byID[s.Effect]
	switch {
	case q == nil:
		return nil
	case q.call == nil:
		return &replay.StepDryRun{Outcome: "not asked", Why: q.why}
	}
	delete(k.byID, s.Effect)
	run := k.dryRuns[q.target]
	var found effect.DryResult
	err := run.limit.Do(ctx, func(ctx context.Context) effect.Result {
		found = run.runner.DryRun(ctx, q.call)
		return attemptOf(found)
	})
	switch {
	case errors.Is(err, jobs.ErrTargetBusy):
		return &replay.StepDryRun{Outcome: "not asked", Why: "the breaker or the rate of the target allows no request now"}
	case err != nil:
		return &replay.StepDryRun{Outcome: "not asked", Why: "it was stopped"}
	}
	out := &replay.StepDryRun{Outcome: string(found.Outcome), Code: found.Code}
	if found.Outcome == effect.DryUnknown {
		out.Why = strings.TrimSuffix(found.Reason+": "+found.Cause, ": ")
	}
	q.compare(out, s.State, &found, run.volatile)
	return out
}

// attemptOf converts an answer to what the target's limits need to know: whether the target is failing, and when to
// ask again.
func attemptOf(found effect.DryResult) effect.Result {
	if found.Outcome == effect.DryUnknown {
		return effect.Result{Outcome: effect.Retry, Reason: found.Reason, Code: found.Code, RetryAfter: found.RetryAfter}
	}
	return effect.Result{Outcome: effect.Done, Code: found.Code}
}

// refusals are the reasons of effects that their target has refused permanently.
var refusals = []reasons.Reason{reasons.Status4xx, reasons.Status410}

// compare compares what the target would do with the stored result. That is possible if the target has answered both
// times: a done effect should be accepted, and an effect that was refused permanently should be refused.
func (q *keptQuestion) compare(out *replay.StepDryRun, state inbox.EffectState, found *effect.DryResult, volatile [][]string) {
	refused := state == inbox.EffectDead && slices.Contains(refusals, q.reason)
	if found.Outcome == effect.DryUnknown || state != inbox.EffectDone && !refused {
		return
	}
	out.Match = new(found.Outcome == effect.DryAccepted != refused)
	if refused || !*out.Match || q.stored == nil || found.Cut {
		return
	}
	differ, ok := jsonspan.ChangesWithout(volatile, q.stored, found.Body, replay.MaxChanges, q.hides)
	if !ok { // one of them is not JSON, and a text has no members
		return
	}
	for _, c := range differ {
		out.Changes = append(out.Changes, replay.Change{Path: c.Path, Before: short(c.Before), After: short(c.After)})
	}
	out.Match = new(len(differ) == 0)
}
