package receiver

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/providers"
)

// request is one request while it is handled.
type request struct {
	source  *endpoint
	http    *http.Request
	w       http.ResponseWriter
	started time.Time
	id      string

	// caller is the caller, once the request is verified. A sender that is no caller of operations has only a
	// tenant.
	caller caller

	// known contains the facts about a verified call of an operation, for any answer to it.
	known problem

	// repeats is the event of the call that this one is suspected to repeat under another key; zero for none.
	repeats inbox.ID

	// intent is the hash of an operation's canonical payload. It is computed on first use.
	intent []byte

	// waited is how long the caller waited for a result, because it had asked to.
	waited time.Duration

	// session is the agent's session of the call; nil if a secret proves the caller.
	session *inbox.AgentSession

	// tookKey means that a new key was taken from the caller's quotas for this request.
	tookKey bool
}

// Handle serves one request to a source, the path parameter "source".
func (r *Receiver) Handle(c echo.Context) error {
	req := &request{
		http:    c.Request(),
		w:       c.Response().Writer,
		started: r.cfg.Now(),
	}
	req.id = r.requestID(req.http)
	req.source = r.sources[c.Param("source")]
	if req.source == nil {
		r.metrics.unknown.Inc()
		reply := bare(http.StatusNotFound, "", "")
		return r.write(c, req, &reply, &result{outcome: outcomeRefused, reason: reasonUnknownSource, unread: true})
	}
	r.metrics.inFlight.Add(1)
	defer r.metrics.inFlight.Add(-1)

	res, reply := r.serve(req)
	req.source.count.observe(&res, req.tenant(), req.started, r.cfg.Now().Sub(req.started), req.waited)
	if req.known.operation != "" && res.outcome != outcomeRefused {
		req.source.calls.call(req.known.operation, res.outcome)
	}
	return r.write(c, req, &reply, &res)
}

// serve takes the request through and decides the answer. A panic anywhere, a
// provider's code included, is a fault of ours.
func (r *Receiver) serve(req *request) (res result, reply providers.Reply) {
	defer func() {
		if value := recover(); value != nil {
			res = result{outcome: outcomeUnavailable, unread: true}
			reply = answer(req.source, &res)
			r.logPanic(req, value)
		}
	}()
	res = r.deliver(req)
	res.problem.withKnown(&req.known)
	if !req.repeats.IsZero() {
		res.repeats = req.repeats.String()
	}
	var answered bool
	if reply, answered = r.outcomeReply(req, &res); !answered {
		reply = answer(req.source, &res)
	}
	if reply.Status < http.StatusOK { // a provider that answers nothing
		reply = bare(http.StatusServiceUnavailable, "Retry-After", afterFault)
	}
	return res, reply
}

func (r *Receiver) deliver(req *request) result {
	source := req.source
	if why := source.precheck(req.http); why != "" {
		return r.refuse(req, nil, why, "")
	}

	remote, _ := netip.ParseAddr(r.remote(req.http))
	body, err := r.bodies.read(arriving{w: req.w, http: req.http, limit: source.maxBody, share: source.share, peer: remote})
	if err != nil {
		return r.unread(req, err)
	}
	connectionOf(req.http.Context()).arrived(r.cfg.SystemNow())
	if n := len(body.buf); n > 0 || req.http.ContentLength != 0 {
		source.count.bodyBytes.Observe(float64(n))
	}

	held := true // also when something below panics
	defer func() {
		if held {
			body.abandon()
		} else {
			body.release()
		}
	}()
	var res result
	res, held = r.admit(req, body, remote)
	return res
}

// unread returns the result of a delivery whose body could not be read.
func (r *Receiver) unread(req *request, err error) result {
	switch why := bodyReason(err); {
	case why != "":
		return r.refuse(req, nil, why, "")
	case errors.Is(err, errShed):
		r.logShed(req)
		return result{outcome: outcomeShed, unread: true}
	default:
		return result{outcome: outcomeOverloaded, unread: true}
	}
}

// admit verifies the delivery and passes it to the gate. held reports that the gate may still read the body.
func (r *Receiver) admit(req *request, body *body, remote netip.Addr) (res result, held bool) {
	source := req.source
	secrets := source.Secrets()
	incoming := providers.Request{
		Method:     req.http.Method,
		URL:        r.address(req.http, source.ExternalURL),
		Header:     req.http.Header,
		Body:       body.buf,
		ReceivedAt: req.started.UTC().Truncate(time.Microsecond), // what PostgreSQL keeps
		Proxied:    r.fromProxy(req.http),
		Remote:     remote,
	}
	reply, handshake, err := source.Provider.Handshake(&incoming, secrets)
	if err != nil {
		return r.unverified(req, &incoming, err), false
	}
	if handshake {
		r.arrived(req, &incoming, reply.Arrived)
		return result{outcome: outcomeHandshake, reply: reply}, false
	}
	if !source.deliveries[incoming.Method] {
		return r.refuse(req, nil, reasonMethod, ""), false // only a handshake comes by it
	}
	delivery, err := r.verify(req, &incoming, secrets)
	if err != nil {
		return r.unverified(req, &incoming, err), false
	}
	if delivery == nil {
		r.logUnverified(req, errors.New("the provider gave neither a delivery nor a refusal"))
		return result{outcome: outcomeUnavailable}, false
	}
	if !source.unproved {
		connectionOf(req.http.Context()).prove()
	}
	if req.session == nil {
		r.metrics.secret(source.name, delivery.Secret)
	}
	req.caller = r.findCaller(req, delivery.Credential)
	if !source.quota.take(req.started) {
		return r.refuse(req, nil, reasonQuota, ""), false
	}
	if len(delivery.Items) == 0 {
		return result{outcome: outcomeEmpty}, false
	}

	admission := inbox.Admission{
		Source:      source.Inbox,
		Body:        incoming.Payload(),
		Headers:     marshalHeaders(payloadHeaders(&incoming), source.keep),
		ReceivedAt:  incoming.ReceivedAt,
		Traceparent: traceparent(req.http.Header),
		IDUnsigned:  delivery.IDUnsigned,
		Tenant:      req.caller.tenant,
		Events:      newEvents(delivery),
	}
	if source.operation {
		req.known.eventID, req.known.operation = admission.Events[0].EventID, admission.Events[0].Type
		if res, ok := r.prepare(req, delivery, &admission.Events[0], admission.Body); !ok {
			return res, false
		}
	}
	entered := r.cfg.Now()
	receipt, err := r.cfg.Gate.Accept(req.http.Context(), &admission)
	source.count.gate.Observe(r.cfg.Now().Sub(entered).Seconds())
	if req.tookKey && (err != nil || len(receipt.Items) != 1 || receipt.Items[0].Outcome != inbox.Recorded) {
		req.caller.giveKey() // it was no new key
	}
	switch {
	case errors.Is(err, gate.ErrOverloaded):
		return result{outcome: outcomeOverloaded}, false
	case errors.Is(err, inbox.ErrNotFollowed):
		return r.notFollowed(req, &admission.Events[0], admission.Body), false
	case errors.Is(err, inbox.ErrSuspectedRepeat):
		return r.suspectedByGate(req, &admission.Events[0]), false
	case err != nil:
		r.logUnrecorded(req, err)
		return result{outcome: outcomeUnavailable}, true
	case len(receipt.Items) != len(delivery.Items):
		r.logUnrecorded(req, fmt.Errorf("the gate answered for %d of %d events", len(receipt.Items), len(delivery.Items)))
		return result{outcome: outcomeUnavailable}, true
	}
	req.known.intentHash = receipt.Items[0].Intent
	req.noteRepeat(&receipt)
	r.logReceipt(req, delivery, &receipt)
	for i := range receipt.Items {
		if delivery.Items[i].Unknown && receipt.Items[i].Outcome == inbox.Recorded {
			source.count.untyped.Inc()
		}
		if receipt.Items[i].Outcome == inbox.Duplicate {
			source.calls.duplicate(delivery.Items[i].Type)
		}
	}
	return r.summarise(source, &receipt), false
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
func (r *Receiver) summarise(source *endpoint, receipt *inbox.Receipt) result {
	res := result{outcome: outcomeDuplicate, status: inbox.Duplicate, event: receipt.Items[0].ID, single: len(receipt.Items) == 1}
	unusable, beyond := false, false
	for i := range receipt.Items {
		item := &receipt.Items[i]
		unusable, beyond = unusable || item.Unusable, beyond || item.BeyondRetention
		if item.SuspectedReplay {
			source.count.suspected.Inc()
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
				res.problem.differing(item)
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

// write sends the answer.
func (r *Receiver) write(c echo.Context, req *request, reply *providers.Reply, res *result) error {
	header := c.Response().Header()
	maps.Copy(header, reply.Header)
	header[headerRequestID] = []string{req.id}
	if reply.Status < 300 && !res.event.IsZero() {
		header["Oncegate-Event"] = []string{res.event.String()}
	}
	if res.unread {
		r.hurry(req.w, req.http)
	}
	if len(reply.Body) == 0 {
		return c.NoContent(reply.Status)
	}
	return c.Blob(reply.Status, reply.ContentType, reply.Body)
}
