package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/providers"
)

// Headers by which the caller of an operation names an earlier call: by Oncegate's id of the event or, if both calls are of
// the same operation, by the idempotency key, quoted or bare.
const (
	// HeaderResumes names the earlier call that this one continues, with the same payload. What the earlier call has done is left
	// out, and what certainly did not happen is done.
	HeaderResumes = "Oncegate-Resumes"

	// HeaderInsteadOf names the earlier call whose place this one takes, perhaps with another payload. All of it is done.
	HeaderInsteadOf = "Oncegate-Instead-Of"

	headerParent = "Oncegate-Parent" // refused
)

// followHeader reads which earlier call a call follows. kind is empty for none; detail describes the error.
func followHeader(h http.Header) (kind inbox.FollowKind, ref, detail string) {
	if _, old := h[http.CanonicalHeaderKey(headerParent)]; old {
		return "", "", "header " + headerParent + " is not accepted any more: name the earlier call in " + HeaderResumes + " to have done what it did not do, or in " + HeaderInsteadOf + " to have this call done whole in its place"
	}
	resumes, insteadOf := h[http.CanonicalHeaderKey(HeaderResumes)], h[http.CanonicalHeaderKey(HeaderInsteadOf)]
	switch {
	case len(resumes)+len(insteadOf) == 0:
		return "", "", ""
	case len(resumes) > 0 && len(insteadOf) > 0:
		return "", "", HeaderResumes + " and " + HeaderInsteadOf + " exclude each other: the first leaves out what the earlier call has done, the second has all of this call done"
	case len(resumes) > 1:
		return "", "", "header " + HeaderResumes + " is there twice"
	case len(insteadOf) > 1:
		return "", "", "header " + HeaderInsteadOf + " is there twice"
	case len(resumes) == 1:
		return inbox.FollowResumes, resumes[0], ""
	}
	return inbox.FollowInsteadOf, insteadOf[0], ""
}

// followHeaderOf is the header of the kind.
func followHeaderOf(kind inbox.FollowKind) string {
	if kind == inbox.FollowResumes {
		return HeaderResumes
	}
	return HeaderInsteadOf
}

// checkFollow finds the earlier call that a call follows, and refuses a call that cannot follow it. The gate decides about calls
// that come at once. A call that is recorded already is answered.
func (o *operations) checkFollow(ctx context.Context, req *request, event *inbox.NewEvent, body []byte) (result, bool) {
	kind, ref, detail := followHeader(req.http.Header)
	switch {
	case detail != "":
		return o.refuse(req, nil, reasonFollowHeader, detail), false
	case kind == "":
		return result{}, true
	case o.cfg.Outcomes == nil:
		return o.refuse(req, nil, reasonFollowHeader, "the server keeps no results, so no call can follow another one: leave the header out"), false
	}
	switch known, err := o.recorded(ctx, req, event); {
	case err != nil:
		return result{outcome: outcomeUnavailable}, false
	case known:
		return result{}, true
	}
	parent, err := o.parent(ctx, req, req.caller.credential, event.Type, ref)
	var res result
	if err == nil {
		event.Follows = &inbox.Follow{Kind: kind, Parent: parent}
		req.intent = intentHash(req.source.Inbox.Comparison(event.Type), body[event.Offset:event.Offset+event.Length])
		res, err = o.canFollow(ctx, req, event, body)
	}
	switch {
	case errors.Is(err, inbox.ErrNotFound):
		return o.refuse(req, nil, reasonParent, followHeaderOf(kind)+" names no earlier call of this credential: correct the key, or ask the operator what the call did if it has been pruned"), false
	case err != nil:
		o.logUnrecorded(req, err)
		return result{outcome: outcomeUnavailable}, false
	}
	return res, res.outcome == ""
}

// canFollow looks whether the call can follow event.Follows.Parent as that is now. The zero result says that it can. It returns
// [inbox.ErrNotFound] if the earlier call is gone.
func (o *operations) canFollow(ctx context.Context, req *request, event *inbox.NewEvent, body []byte) (result, error) {
	follows, credential := event.Follows, req.caller.credential
	follows.Intent = inbox.RecentCallHash(credential, event.Type, req.intent)
	parent, err := o.cfg.Outcomes.FollowedCall(ctx, follows)
	if err != nil {
		return result{}, err
	}
	follows.ParentKey = parent.Key
	resumes := follows.Kind == inbox.FollowResumes
	if resumes {
		comparison := req.source.Inbox.Comparison(event.Type)
		intent := req.intent
		if !o.cfg.Installation.IsStoredHash(parent.Intent, intent) {
			intent = comparison.Recognize(o.cfg.Installation, parent.Intent, body[event.Offset:event.Offset+event.Length])
		}
		if parent.Operation != event.Type || intent == nil {
			return o.refuseFor(ctx, req, reasonResumeDiffers, parent.Event, "the earlier call is of operation "+parent.Operation+", and its payload or its operation differs: make the same call, or name the earlier one in "+HeaderInsteadOf+" to have this one done whole"), nil
		}
		follows.Intent = inbox.RecentCallHash(credential, event.Type, intent)
	}
	standing, err := o.readStanding(ctx, parent.Event)
	switch {
	case err != nil:
		return result{}, err
	case !standing.settled():
		return o.refuseFor(ctx, req, reasonParentUnsettled, parent.Event, "the earlier call is "+standing.state()+", so what it has done is not known yet: make this call again with "+followHeaderOf(follows.Kind)+" when it has a result"), nil
	case !parent.Follower.IsZero():
		if known, err := o.recorded(ctx, req, event); known || err != nil { // it was this call, a moment ago
			return result{}, err
		}
		return o.refuseFor(ctx, req, reasonFollowed, parent.Follower, "another call follows the earlier one already: event names it, and "+followHeaderOf(follows.Kind)+" may name that one"), nil
	case resumes && !parent.EffectsKept:
		return o.refuseFor(ctx, req, reasonParentPruned, parent.Event, "nothing is kept of what the earlier call did, so that it could happen twice: do what next says; "+HeaderInsteadOf+" has all of it done"), nil
	}
	return result{}, nil
}

// notFollowed is for a call that the gate refused because of the earlier call.
func (o *operations) notFollowed(req *request, event *inbox.NewEvent, body []byte) result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.http.Context()), lookupTimeout)
	defer cancel()
	res, err := o.canFollow(ctx, req, event, body)
	switch {
	case errors.Is(err, inbox.ErrNotFound):
		return o.refuse(req, nil, reasonParent, "the earlier call that "+followHeaderOf(event.Follows.Kind)+" names was pruned: ask the operator what it did")
	case err != nil:
		o.logUnrecorded(req, err)
		return result{outcome: outcomeUnavailable}
	case res.outcome == "": // it was busy for a moment, and is not any more
		return o.refuseFor(ctx, req, reasonParentUnsettled, event.Follows.Parent, "the earlier call changed at the same moment: make this call again")
	}
	return res
}

// standing is a call's state and its result, if it has one.
type standing struct {
	document json.RawMessage
	Status   operation.ResultStatus `json:"status"`
	Next     operation.Next         `json:"next"`
}

func (s *standing) settled() bool {
	return s.document != nil && s.Status != operation.ResultIndeterminate
}

func (s *standing) state() string {
	if s.document == nil {
		return stateInFlight
	}
	return string(s.Status)
}

// readStanding reads the state and the result of a call.
func (o *operations) readStanding(ctx context.Context, event inbox.ID) (standing, error) {
	s := standing{Next: operation.NextWait}
	document, ok, err := o.cfg.Outcomes.Await(ctx, event, 0)
	if err != nil || !ok {
		return s, err
	}
	s.document = document
	return s, json.Unmarshal(document, &s)
}

// refuseFor refuses a call because of another one, and shows its caller the state of that one.
func (o *operations) refuseFor(ctx context.Context, req *request, why reason, other inbox.ID, detail string) result {
	res := o.refuse(req, nil, why, detail)
	o.show(ctx, req, &res.problem, other)
	switch why {
	case reasonParentPruned:
		if res.problem.next != operation.NextReplace {
			res.problem.next = operation.NextAskOperator
		}
	case reasonResumeDiffers:
		if res.problem.result != nil && res.problem.next != operation.NextAskOperator {
			res.problem.next = operation.NextReplace
		}
	case reasonParentUnsettled:
		if res.problem.result == nil {
			res.problem.next = operation.NextWait
		}
	default:
	}
	return res
}

// show adds another call to the problem, if that call is the caller's own: its state, its result once there is one, and what
// can be done with it.
func (o *operations) show(ctx context.Context, req *request, p *problem, other inbox.ID) {
	if other.IsZero() {
		return
	}
	switch _, err := o.findOwn(ctx, req, req.caller.credential, other.String()); {
	case errors.Is(err, inbox.ErrNotFound):
		p.next = operation.NextAskOperator // it is pruned, or of another run
		return
	case err != nil:
		o.logUnrecorded(req, err)
		return
	}
	p.event = other
	o.showOwn(ctx, req, p, other)
}

// showOwn does so for a call that is known to be the caller's.
func (o *operations) showOwn(ctx context.Context, req *request, p *problem, call inbox.ID) {
	s, err := o.readStanding(ctx, call)
	if err != nil { // the refusal is true without it
		o.logUnrecorded(req, err)
		return
	}
	p.state, p.result, p.next = s.state(), s.document, s.Next
}

// parent finds the call that a header names. As in the header of the idempotency key, a key in quotes and the
// bare one are the same, whichever of them is recorded.
func (o *operations) parent(ctx context.Context, req *request, credential, operation, ref string) (inbox.ID, error) {
	bare, quoted := providers.KeyForms(ref)
	for _, key := range []string{bare, quoted} {
		id, err := o.findOwn(ctx, req, credential, credential+":"+operation+":"+key)
		if !errors.Is(err, inbox.ErrNotFound) {
			return id, err
		}
	}
	if _, err := inbox.ParseID(bare); err != nil {
		return inbox.ID{}, inbox.ErrNotFound
	}
	return o.findOwn(ctx, req, credential, bare)
}
