package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/pause"
)

// maxCauses is how many causes of refusals one request acknowledges: as many as [GroupRefusals] returns.
const maxCauses = 1000

// AcknowledgeRefusalsRequest names causes of refusals, as [GroupRefusals] lists them.
type AcknowledgeRefusalsRequest struct {
	Explained `required:"reason"`

	// Causes are the sources, causes and peers, at most 1,000. Refusals of any other source, cause or peer still wait for an operator.
	Causes []decide.RefusalCause `json:"causes"`

	// Withdraw takes the acknowledgements back, so that the refusals wait for an operator again.
	Withdraw bool `json:"withdraw,omitempty" flag:"--withdraw take acknowledgements back, so that the refusals wait for you again"`
}

// AcknowledgedRefusals is the result for the causes.
type AcknowledgedRefusals struct {
	// Changed is how many causes were acknowledged, or are not acknowledged any more. The others were so before.
	Changed int `json:"changed"`
}

// AcknowledgeRefusals decides that refusals of some causes need nothing from an operator.
var AcknowledgeRefusals = Operation[AcknowledgeRefusalsRequest, AcknowledgedRefusals]{
	ID: "acknowledge_refusals", Method: "POST", Path: "/refusals/acknowledge", Scope: Operate,
	Summary: "Acknowledge refusals by source, cause and peer: they wait for nobody, also those that come later, until another cause appears.",
	Why:     "why need they nothing?", Confirm: "acknowledge",
	Do: func(ctx context.Context, s *Service, access Access, r AcknowledgeRefusalsRequest) (out AcknowledgedRefusals, err error) {
		if len(r.Causes) == 0 || len(r.Causes) > maxCauses {
			return out, invalid("causes: name from 1 to %d, as the groups of refusals list them", maxCauses)
		}
		names, err := pause.Known(ctx, s.cfg.Lists, pause.Source, access.Tenant)
		if err != nil {
			return out, err
		}
		for _, cause := range r.Causes {
			if err := named(pause.Source, cause.Source, names); err != nil {
				return out, err
			}
		}
		out.Changed, err = decide.New(s.store).Acknowledge(ctx, decide.AcknowledgeRefusals{
			Causes: r.Causes, Withdraw: r.Withdraw, Tenant: access.Tenant, Actor: access.Actor, Reason: r.Reason,
		})
		return out, err
	},
}
