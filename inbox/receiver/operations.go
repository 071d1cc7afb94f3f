package receiver

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/providers"
)

// operations takes the calls of operations. A call has one event, whose key begins with the caller's credential.
type operations struct {
	*Receiver
	tokens *sessionTokens
}

// call is what is known about a call of an operation.
type call struct {
	// caller is the caller, once the call is verified.
	caller caller

	// known contains the facts about a verified call, for any answer to it.
	known problem

	// repeats is the event of the call that this one is suspected to repeat under another key; zero for none.
	repeats inbox.ID

	// intent is the hash of the canonical payload. It is computed on first use.
	intent []byte

	// session is the agent's session of the call; nil if a secret proves the caller.
	session *operation.AgentSession

	// tookKey means that a new key was taken from the caller's quotas for this call.
	tookKey bool
}

// take implements [product].
func (o *operations) take(req *request, secrets []providers.Secret) (result, bool) {
	delivery, err := o.verify(req, &req.incoming, secrets)
	if err != nil {
		return o.unverifiedCall(req, &req.incoming, err), false
	}
	if delivery != nil {
		req.caller = o.findCaller(req, delivery.Credential)
	}
	if res, ok := o.verified(req, delivery, nil); !ok {
		return res, false
	}
	admission := newAdmission(req, delivery)
	event := &admission.Events[0]
	req.known.eventID, req.known.operation = event.EventID, event.Type
	if res, ok := o.prepare(req, delivery, event, admission.Body); !ok {
		return res, false
	}
	receipt, err := o.record(req, admission)
	if req.tookKey && (err != nil || receipt.Items[0].Outcome != inbox.Recorded) {
		req.caller.giveKey() // it was no new key
	}
	switch {
	case errors.Is(err, inbox.ErrNotFollowed):
		return o.notFollowed(req, event, admission.Body), false
	case errors.Is(err, inbox.ErrSuspectedRepeat):
		return o.suspectedByGate(req, event), false
	case err != nil:
		return o.unrecorded(req, err)
	}
	req.known.intentHash = receipt.Items[0].Intent
	req.noteRepeat(&receipt)
	res := o.conclude(req, delivery, &receipt)
	if res.outcome == outcomeConflict {
		res.problem.differing(&receipt.Items[0])
	}
	return res, false
}

// prepare makes the checks of an operation before it is recorded. It returns false, with the result, if
// the operation must not be recorded.
func (o *operations) prepare(req *request, delivery *providers.Delivery, event *inbox.NewEvent, body []byte) (result, bool) {
	source := req.source
	ctx, cancel := context.WithTimeout(req.http.Context(), lookupTimeout)
	defer cancel()
	if !req.caller.mayCall(event.Type) {
		return o.refuse(req, nil, reasonNotAllowed, "credential "+req.caller.credential+" may not call operation "+event.Type), false
	}
	if res, ok := o.checkKey(ctx, req, delivery.GivenKey, event); !ok {
		return res, false
	}
	if res, ok := o.checkDeclared(ctx, req, event, body); !ok {
		return res, false
	}
	if res, ok := o.checkIntent(ctx, req, event, body); !ok {
		return res, false
	}
	credential := req.caller.credential
	if res, ok := o.checkFollow(ctx, req, event, body); !ok {
		return res, false
	}
	if res, ok := o.checkRepeat(ctx, req, event, body); !ok {
		return res, false
	}
	taken, after, owner := req.caller.quotas.take(req.started)
	if taken {
		req.tookKey = len(req.caller.quotas) > 0
		return result{}, true
	}
	// Only new keys are refused: a repeated call gets its answer.
	switch _, err := o.cfg.Outcomes.Find(ctx, source.Inbox.ID, credential, event.EventID); {
	case errors.Is(err, inbox.ErrNotFound):
		res := o.refuse(req, nil, reasonQuota, "the quota of new keys of "+owner+" is used up for now")
		res.problem.retryAfter = after
		return res, false
	case err != nil:
		o.logUnrecorded(req, err)
		return result{outcome: outcomeUnavailable}, false
	}
	return result{}, true
}

// reply implements [product].
func (o *operations) reply(req *request, res result) (result, providers.Reply) {
	res.problem.withKnown(&req.known)
	if !req.repeats.IsZero() {
		res.repeats = req.repeats.String()
	}
	reply := o.answer(req, &res)
	if req.known.operation != "" && res.outcome != outcomeRefused {
		req.source.calls.call(req.known.operation, res.outcome)
	}
	return res, reply
}

// answer answers a recorded call with its outcome, and any other as [answerCaller] does.
func (o *operations) answer(req *request, res *result) providers.Reply {
	if o.cfg.Outcomes == nil || res.event.IsZero() {
		return answerCaller(req.source, res)
	}
	switch res.outcome {
	case outcomeDuplicate:
		return o.repeated(req, res)
	case outcomeConflict:
		return o.differs(req, res)
	case outcomeRecorded, outcomeUnusable:
		return o.first(req, res)
	default:
		return answerCaller(req.source, res)
	}
}
