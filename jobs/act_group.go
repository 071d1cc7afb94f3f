package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

// groupable is a kind inside the database whose effect is one statement.
type groupable interface {
	Statement() string
	Arguments(call *effect.Call) (args []any, failure *effect.Result)
}

var _ groupable = (*sql.Transactional)(nil)

// groups gives the kind of an effect that may be carried out in a group; nil for
// one that has to be by itself.
func (c *Client) groups(w wakeUp, standing inbox.Standing) groupable {
	route := c.cfg.Routes[standing.RouteID]
	kind, ok := c.cfg.Transactionals[route.Target].(groupable)
	if !ok || w.again || standing.Unfinished {
		return nil
	}
	// Events that count as one only within a stretch of time are compared under a
	// lock of their key, one by one.
	if known, _ := c.store.Route(standing.RouteID); route.Key != nil && known.KeyWithin > 0 {
		return nil
	}
	return kind
}

// actGrouped carries out an effect that is one statement together with others:
// still claimed, carried out and settled in one transaction, but in one of many.
// done is false if the effect has to be carried out by itself, because the group
// did not come to an end.
func (c *Client) actGrouped(ctx context.Context, w wakeUp, standing inbox.Standing, kind groupable, begun time.Time, came *effect.Result) (done bool, _ error) {
	end, err := c.store.Act(ctx, standing.RouteID, inbox.GroupedAct{
		Effect: w.effect, JobID: w.jobID,
		Act: func(claim *inbox.Claim) (string, []any, inbox.Settlement) { return c.actOf(ctx, claim, kind, begun) },
		Key: func(claim *inbox.Claim) ([]byte, *inbox.Settlement) {
			if s := c.keyMissing(ctx, claim); s != nil {
				return nil, s
			}
			return c.keyOf(ctx, claim, c.cfg.Routes[claim.RouteID])
		},
	})
	switch {
	case errors.Is(err, inbox.ErrAmbiguous), err != nil && !errors.Is(err, inbox.ErrUngrouped):
		return true, c.uncertain(ctx, w.effect, "acting in a group", err)
	case err != nil:
		return false, nil //nolint:nilerr // by itself it is seen which one was the cause
	case end.Claim == nil:
		return true, c.notObtained(end.Standing)
	}
	*came = effect.Result{Outcome: effect.Done}
	c.report(ctx, end.Claim, end.Settlement, end.Settled, c.now().Sub(begun))
	return true, c.next(ctx, w, end.Settled.Standing)
}

// actOf is what one claim of a group comes to.
func (c *Client) actOf(ctx context.Context, claim *inbox.Claim, kind groupable, begun time.Time) (string, []any, inbox.Settlement) {
	route := c.cfg.Routes[claim.RouteID]
	known, _ := c.store.Route(claim.RouteID)
	if s := c.keyMissing(ctx, claim); s != nil {
		return "", nil, *s
	}
	result := effect.Result{Outcome: effect.Dead, Reason: string(claim.Event.GoneReason)}
	if !claim.Event.BodyGone {
		if s := c.condition(ctx, claim, route); s != nil {
			return "", nil, *s
		}
		if s := c.pastDeadline(claim, 0); s != nil {
			return "", nil, *s
		}
		args, failure := argumentsOf(kind, callOf(claim, route))
		if failure == nil {
			return kind.Statement(), args, decide(claim, known, effect.Result{Outcome: effect.Done}, c.now().Sub(begun), c.random)
		}
		result = *failure
	}
	return "", nil, decide(claim, known, result, c.now().Sub(begun), c.random)
}

func argumentsOf(kind groupable, call *effect.Call) (args []any, failure *effect.Result) {
	defer func() {
		if p := recover(); p != nil {
			failure = &effect.Result{Outcome: effect.Dead, Reason: string(inbox.ReasonRender)}
		}
	}()
	return kind.Arguments(call)
}
