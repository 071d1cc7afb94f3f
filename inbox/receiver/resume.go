package receiver

import (
	"context"
	"encoding/json"

	"github.com/oncegate/oncegate/inbox"
)

// checkParent refuses a call that resumes a parent of which it is not known what it has done. A call
// that is recorded already is answered.
func (r *Receiver) checkParent(ctx context.Context, req *request, event *inbox.NewEvent) (result, bool) {
	if !req.source.declared(event.Type).Resume {
		return result{}, true
	}
	document, settled, err := r.cfg.Outcomes.Await(ctx, event.Parent, 0)
	if err != nil {
		r.logUnrecorded(req, err)
		return result{outcome: outcomeUnavailable}, false
	}
	state := stateInFlight
	if settled {
		var parent struct {
			Status inbox.ResultStatus `json:"status"`
		}
		if err := json.Unmarshal(document, &parent); err != nil {
			r.logUnrecorded(req, err)
			return result{outcome: outcomeUnavailable}, false
		}
		if parent.Status != inbox.ResultIndeterminate {
			return result{}, true
		}
		state = string(parent.Status)
	}
	switch known, err := r.recorded(ctx, req, event); {
	case err != nil:
		return result{outcome: outcomeUnavailable}, false
	case known:
		return result{}, true
	}
	res := r.refuse(req, nil, reasonParentUnsettled, "the parent is "+state+": what it has done is not known yet")
	res.problem.state, res.problem.location = state, req.source.location(event.Parent)
	return res, false
}
