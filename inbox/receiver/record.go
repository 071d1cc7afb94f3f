package receiver

import (
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/buffer"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/providers"
)

// verified checks what the provider said about the request. It returns false, with the result, unless there are events
// to record.
func (r *Receiver) verified(req *request, delivery *providers.Delivery, err error) (result, bool) {
	switch {
	case err != nil:
		return r.unverified(req, &req.incoming, err), false
	case delivery == nil:
		r.logUnverified(req, errors.New("the provider gave neither a delivery nor a refusal"))
		return result{outcome: outcomeUnavailable}, false
	}
	if !req.source.unproved {
		connectionOf(req.http.Context()).prove()
	}
	if req.call == nil || req.session == nil {
		count := &req.source.count
		r.metrics.secrets.WithLabelValues(count.label, count.part(delivery.Secret)).Inc()
	}
	if res, over := r.overQuota(req); over {
		return res, false
	}
	r.continueTrace(req)
	return result{outcome: outcomeEmpty}, len(delivery.Items) > 0
}

// overQuota counts a verified request against the quotas of its source. Beyond them it returns the refusal, with the seconds
// until there is room again. A message of a broker is not refused but comes later.
func (r *Receiver) overQuota(req *request) (res result, over bool) {
	taken, after, _ := req.source.quotas.take(req.started)
	if !taken && req.message != nil {
		return result{outcome: outcomeOverloaded, problem: problem{retryAfter: after}}, true // the broker keeps the message
	}
	if !taken {
		res = r.refuse(req, nil, reasonQuota, "")
		res.problem.retryAfter = after
	}
	return res, !taken
}

// newAdmission makes the admission of a verified request.
func newAdmission(req *request, delivery *providers.Delivery) *inbox.Admission {
	return &inbox.Admission{
		Source:      req.source.Inbox,
		Body:        req.incoming.Payload(),
		Headers:     marshalHeaders(payloadHeaders(&req.incoming), req.source.keep),
		ReceivedAt:  req.incoming.ReceivedAt,
		Traceparent: req.traceparent,
		IDUnsigned:  delivery.IDUnsigned,
		Tenant:      req.tenant(),
		Events:      newEvents(delivery),
	}
}

// record passes an admission to the gate. An error that is not one of the gate's refusals is a fault of ours.
func (r *Receiver) record(req *request, admission *inbox.Admission) (inbox.Receipt, error) {
	entered := r.cfg.Now()
	ended := req.traceGate(len(admission.Events))
	to := r.cfg.Gate
	if req.source.Buffered && req.message == nil {
		to = r.cfg.Buffer
	}
	receipt, err := to.Accept(req.http.Context(), admission)
	ended(err)
	r.metrics.calls.gate.WithLabelValues(req.source.count.label).Observe(r.cfg.Now().Sub(entered).Seconds())
	if err == nil && len(receipt.Items) != len(admission.Events) {
		err = fmt.Errorf("the gate answered for %d of %d events", len(receipt.Items), len(admission.Events))
	}
	return receipt, err
}

// unrecorded returns the result of a request that the gate did not record. held reports that the gate may still read the
// body.
func (r *Receiver) unrecorded(req *request, err error) (res result, held bool) {
	switch {
	case errors.Is(err, buffer.ErrBuffered):
		r.logBuffered(req)
		return result{outcome: outcomeBuffered}, true
	case errors.Is(err, gate.ErrOverloaded):
		return result{outcome: outcomeOverloaded}, false
	}
	r.logUnrecorded(req, err)
	return result{outcome: outcomeUnavailable}, true
}

// conclude logs and counts what the gate found, and makes one result of it.
func (r *Receiver) conclude(req *request, delivery *providers.Delivery, receipt *inbox.Receipt) result {
	r.logReceipt(req, delivery, receipt)
	if req.span != nil && len(receipt.Items) == 1 {
		req.loggedID = r.cfg.Installation.Logged(delivery.Items[0].EventID)
	}
	for i := range receipt.Items {
		if delivery.Items[i].Unknown && receipt.Items[i].Outcome == inbox.Recorded {
			r.metrics.untyped.WithLabelValues(req.source.count.label).Inc()
		}
		req.source.calls.event(delivery.Items[i].Type, &receipt.Items[i])
	}
	return req.source.summarise(receipt)
}

// newEvents converts the events for the gate. The age of an event is judged by its own time if that is
// signed, and otherwise by the time of its delivery.
func newEvents(delivery *providers.Delivery) []inbox.NewEvent {
	items := delivery.Items
	events := make([]inbox.NewEvent, len(items))
	for i := range items {
		item := &items[i]
		events[i] = inbox.NewEvent{
			EventID:        item.EventID,
			Transmission:   item.Transmission,
			Type:           item.Type,
			OccurredAt:     item.OccurredAt,
			Offset:         item.Offset,
			Length:         item.Length,
			Unusable:       item.Unusable,
			SequenceKey:    item.SequenceKey,
			SequenceNumber: item.SequenceNumber,
			DatedAt:        delivery.SignedAt,
		}
		if item.Dated {
			events[i].DatedAt = item.OccurredAt
		}
	}
	return events
}

// summarise makes one acknowledgement of a receipt: a conflict is reported first, and a delivery is a
// duplicate only if all of its events are.
func (e *endpoint) summarise(receipt *inbox.Receipt) result {
	res := result{outcome: outcomeDuplicate, status: inbox.Duplicate, event: receipt.Items[0].ID, single: len(receipt.Items) == 1}
	unusable, beyond := false, false
	for i := range receipt.Items {
		item := &receipt.Items[i]
		unusable, beyond = unusable || item.Unusable, beyond || item.BeyondRetention
		if item.SuspectedReplay {
			e.count.metrics.suspected.WithLabelValues(e.count.label).Inc()
		}
		switch item.Outcome {
		case inbox.Duplicate:
		case inbox.Recorded:
			if res.status == inbox.Duplicate {
				res.outcome, res.status = outcomeRecorded, inbox.Recorded
			}
		case inbox.Conflict:
			if res.status != inbox.Conflict {
				res.outcome, res.status = outcomeConflict, inbox.Conflict
			}
		default:
			return result{outcome: outcomeUnavailable} // an answer we do not know is no acknowledgement
		}
	}
	switch {
	case res.outcome != outcomeRecorded:
	case unusable:
		res.outcome = outcomeUnusable
	case beyond:
		res.outcome = outcomeBeyondRetention
	}
	return res
}
