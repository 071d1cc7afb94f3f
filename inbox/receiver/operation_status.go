package receiver

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/providers"
)

// HandleStatus answers a caller with the outcome of an earlier operation of the same credential: GET
// /in/:source/:event, where event is our id.
func (r *Receiver) HandleStatus(c echo.Context) error {
	req := r.newRequest(c)
	if req.source == nil || !req.source.operation || r.cfg.Outcomes == nil {
		r.metrics.unknown.Inc()
		reply := bare(http.StatusNotFound, "", "")
		return r.write(c, req, &reply, &result{outcome: outcomeRefused, reason: reasonUnknownSource, unread: true})
	}
	r.metrics.inFlight.Add(1)
	defer r.metrics.inFlight.Add(-1)
	connectionOf(req.http.Context()).arrived(r.cfg.SystemNow())
	res, reply := r.operations.status(req, c.Param("event"))
	req.source.count.observeStatus(&res, req.tenant(), req.started, r.cfg.Now().Sub(req.started), req.waited)
	return r.write(c, req, &reply, &res)
}

// status finds the event only for its credential: an event of another credential is not found.
func (o *operations) status(req *request, ref string) (result, providers.Reply) {
	source := req.source
	refused := func(why reason) (result, providers.Reply) {
		res := o.refuse(req, nil, why, "")
		return res, answerCaller(source, &res)
	}
	if req.http.Method != http.MethodGet && req.http.Method != http.MethodHead {
		res := o.refuse(req, nil, reasonMethod, "")
		reply := answerCaller(source, &res)
		reply.Header = withHeader(reply.Header, "Allow", "GET, HEAD")
		return res, reply
	}
	known, ok := source.Provider.(callerVerifier)
	if !ok {
		return refused(reasonUnknownEvent)
	}
	incoming := providers.Request{
		Method: req.http.Method, URL: o.address(req.http, source.ExternalURL), Header: req.http.Header,
		ReceivedAt: req.started.UTC().Truncate(time.Microsecond),
	}
	credential, err := o.verifyCaller(req, &incoming, known)
	if err != nil {
		res := o.unverifiedCall(req, nil, err)
		return res, answerCaller(source, &res)
	}
	req.caller = source.callers.find(credential)
	fault := func(err error) (result, providers.Reply) {
		o.logUnrecorded(req, err)
		res := result{outcome: outcomeUnavailable}
		return res, answerCaller(source, &res)
	}
	if _, err := inbox.ParseID(ref); err != nil {
		return refused(reasonUnknownEvent)
	}
	event, err := o.findOwn(req.http.Context(), req, credential, ref)
	if errors.Is(err, inbox.ErrNotFound) {
		return refused(reasonUnknownEvent)
	}
	if err != nil {
		return fault(err)
	}
	wait := req.wait()
	document, ok, err := o.await(req, event, wait)
	if err != nil {
		return fault(err)
	}
	res := result{outcome: outcomeStatus, event: event}
	reply := resultOf(document)
	if !ok {
		reply = source.inFlight(event)
	}
	if wait > 0 {
		reply.Header = withHeader(reply.Header, "Preference-Applied", applied(wait))
	}
	return res, req.withFacts(reply, &res)
}
