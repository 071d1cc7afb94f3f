package receiver

import (
	"context"
	"encoding/json"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/internal/visible"
	"github.com/oncegate/oncegate/providers"
)

// webhooks takes the deliveries of providers.
type webhooks struct{ *Receiver }

// take implements [product].
func (w *webhooks) take(req *request, secrets []providers.Secret) (result, bool) {
	delivery, err := req.source.Provider.Verify(&req.incoming, secrets)
	if res, ok := w.verified(req, delivery, err); !ok {
		return res, false
	}
	receipt, err := w.record(req, newAdmission(req, delivery))
	if err != nil {
		return w.unrecorded(req, err)
	}
	return w.conclude(req, delivery, &receipt), false
}

// reply implements [product].
func (w *webhooks) reply(req *request, res result) (result, providers.Reply) {
	if res.outcome == outcomeDuplicate && res.single && req.source.AnswerOutcome {
		if reply, ok := w.duplicate(req, &res); ok {
			return res, reply
		}
	}
	return res, answer(req.source, &res)
}

// duplicate answers a provider's sender with the outcome of the event that it delivered before. If the
// outcome cannot be read, the ordinary answer says that it is a duplicate.
func (w *webhooks) duplicate(req *request, res *result) (providers.Reply, bool) {
	ctx, cancel := context.WithTimeout(req.http.Context(), lookupTimeout)
	defer cancel()
	outcome, err := w.cfg.Outcomes.Outcome(ctx, res.event)
	if err != nil {
		w.logUnrecorded(req, err)
		return providers.Reply{}, false
	}
	for i := range outcome.Effects { // the targets' answers are only for callers of operations
		outcome.Effects[i].Code, outcome.Effects[i].Detail = "", ""
	}
	text, err := json.Marshal(struct {
		Event   inbox.ID                  `json:"event"`
		Status  inbox.Outcome             `json:"status"`
		Effects []operation.EffectOutcome `json:"effects"`
	}{res.event, res.status, outcome.Effects})
	if err != nil {
		w.logUnrecorded(req, err)
		return providers.Reply{}, false
	}
	reply := acknowledge(req.source, res)
	reply.ContentType, reply.Body = "application/json", visible.JSON(text)
	return reply, true
}
