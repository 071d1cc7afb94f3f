package jobs

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

// groupable is a kind inside the database whose effect is one statement.
type groupable interface {
	Statement() string
	Arguments(call *effect.Call) (args []any, failure *effect.Result)
	// KeepsReply reports whether the statement's result is kept, which a group cannot do.
	KeepsReply() bool
}

var _ groupable = (*sql.Transactional)(nil)

// groupKind returns the kind of an effect that can run in a group, or nil if the effect must run
// alone.
func (a attempt) groupKind(standing inbox.Standing) groupable {
	kind, ok := a.route.transactional.(groupable)
	if !ok || a.wakeUp.again || standing.Unfinished || kind.KeepsReply() || a.route.Fetch != nil {
		return nil
	}
	// Events that count as one only within a stretch of time are compared under a
	// lock of their key, one by one.
	if a.route.Key != nil && a.route.stored.KeyWithin > 0 {
		return nil
	}
	return kind
}

// actInGroup carries out an effect that is one statement together with other effects. It is still
// claimed, carried out and settled in one transaction, but other effects share that transaction.
// done is false if the effect must run alone because the group did not finish.
func (a attempt) actInGroup(ctx context.Context, standing inbox.Standing, kind groupable, noted *effect.Result) (done bool, _ error) {
	var hash []byte // hash of the key that the statement uses; the group looks up the key's owner by it
	end, err := a.store.Act(ctx, standing.RouteID, inbox.GroupedAct{
		Effect: a.wakeUp.effect, JobID: a.wakeUp.jobID,
		Act: func(claim *inbox.Claim) (statement string, args []any, s inbox.Settlement) {
			statement, args, hash, s = a.of(claim).statement(ctx, kind)
			return statement, args, s
		},
		Key: func(*inbox.Claim) ([]byte, *inbox.Settlement) { return hash, nil },
	})
	switch {
	case errors.Is(err, inbox.ErrAmbiguous), err != nil && !errors.Is(err, inbox.ErrUngrouped):
		return true, a.markUncertain(ctx, "acting in a group", err)
	case err != nil:
		return false, nil //nolint:nilerr // running it alone shows which effect was the cause
	case end.Claim == nil:
		return true, awaitHolder(end.Standing)
	}
	*noted = effect.Result{Outcome: effect.Done}
	a.of(end.Claim).report(ctx, end.Settlement, end.Settled)
	return true, a.answer(ctx, end.Settled.Standing)
}

// of returns the attempt with claim as its claim.
func (a attempt) of(claim *inbox.Claim) attempt {
	a.claim = claim
	return a
}

// statement returns what to run for one claim of a group. Without a statement, the settlement says
// how the claim ends.
func (a attempt) statement(ctx context.Context, kind groupable) (_ string, args []any, hash []byte, _ inbox.Settlement) {
	if s := a.checkContent(ctx); s != nil {
		return "", nil, nil, *s
	}
	result := effect.Result{Outcome: effect.Dead, Reason: string(a.claim.Event.GoneReason)}
	if !a.claim.Event.BodyGone {
		if s := a.checkCondition(ctx); s != nil {
			return "", nil, nil, *s
		}
		if s := a.checkDeadline(0); s != nil {
			return "", nil, nil, *s
		}
		hash, s := a.effectKey(ctx)
		if s != nil {
			return "", nil, nil, *s
		}
		args, failure := safeArguments(kind, a.route.call(a.claim))
		if failure == nil {
			return kind.Statement(), args, hash, a.decide(effect.Result{Outcome: effect.Done})
		}
		result = *failure
	}
	return "", nil, nil, a.decide(result)
}
