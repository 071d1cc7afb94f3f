package receiver

import (
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/oncegate/oncegate/providers"
)

// request is one request while it is handled.
type request struct {
	source  *endpoint
	http    *http.Request
	w       http.ResponseWriter
	started time.Time
	id      string

	// incoming is the request for the provider, once its body has arrived.
	incoming providers.Request

	// traceparent is the W3C trace context that is stored with the events: of span, or of the sender if nothing is
	// traced. It is empty until the request is verified. span is nil until it begins.
	traceparent string
	span        DeliverySpan

	// loggedID is the sender's id of the only event, as the log shows it. It is set only for span.
	loggedID string

	// waited is how long the caller of an operation waited for a result, because it had asked to.
	waited time.Duration

	// message is the message of a broker; nil for a request over HTTP.
	message *Message

	// call is of an operation; nil for a delivery of a provider.
	*call
}

// product is what a source offers to its senders: [webhooks] takes the deliveries of providers, and [operations] the calls
// of operations. The receiver treats both alike until the body has arrived, and again once the answer is decided.
type product interface {
	// take verifies a request that is no handshake and passes it to the gate. held reports that the gate may still read
	// the body.
	take(req *request, secrets []providers.Secret) (res result, held bool)

	// reply decides the answer, and returns the result with it, because the answer may depend on what is found now.
	reply(req *request, res result) (result, providers.Reply)
}

// Handle serves one request to a source, the path parameter "source".
func (r *Receiver) Handle(c echo.Context) error {
	req := r.newRequest(c)
	if req.source == nil {
		r.metrics.unknown.Inc()
		reply := bare(http.StatusNotFound, "", "")
		return r.write(c, req, &reply, &result{outcome: outcomeRefused, reason: reasonUnknownSource, unread: true})
	}
	r.metrics.inFlight.Add(1)
	defer r.metrics.inFlight.Add(-1)

	res, reply := r.serve(req)
	r.endTrace(req, &res, reply.Status)
	req.source.count.observe(&res, req.tenant(), req.started, r.cfg.Now().Sub(req.started), req.waited)
	return r.write(c, req, &reply, &res)
}

// newRequest makes the request to the source that the path names; its source is nil if there is none.
func (r *Receiver) newRequest(c echo.Context) *request {
	req := &request{source: r.sources[c.Param("source")], http: c.Request(), w: c.Response().Writer, started: r.cfg.Now()}
	req.id = r.requestID(req.http)
	if req.source != nil && req.source.operation {
		req.call = &call{}
	}
	return req
}

// serve takes the request through and decides the answer. A panic anywhere, a
// provider's code included, is a fault of ours.
func (r *Receiver) serve(req *request) (res result, reply providers.Reply) {
	defer func() {
		if value := recover(); value != nil {
			res = result{outcome: outcomeUnavailable, unread: true}
			res, reply = req.source.product.reply(req, res)
			r.logPanic(req, value)
		}
	}()
	res = r.deliver(req)
	res, reply = req.source.product.reply(req, res)
	if reply.Status < http.StatusOK { // a provider that answers nothing
		reply = bare(http.StatusServiceUnavailable, "Retry-After", afterFault)
	}
	return res, reply
}

func (r *Receiver) deliver(req *request) result {
	source := req.source
	if source.Paused != nil && source.Paused() {
		return result{outcome: outcomePaused, unread: true}
	}
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
		r.metrics.bytes.WithLabelValues(source.count.label).Observe(float64(n))
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

// admit answers a handshake, and passes any other request to the product of its source. held reports that the gate may
// still read the body.
func (r *Receiver) admit(req *request, body *body, remote netip.Addr) (res result, held bool) {
	source := req.source
	secrets := source.Secrets()
	req.incoming = providers.Request{
		Method:     req.http.Method,
		URL:        r.address(req.http, source.ExternalURL),
		Header:     req.http.Header,
		Body:       body.buf,
		ReceivedAt: req.started.UTC().Truncate(time.Microsecond), // what PostgreSQL keeps
		Proxied:    r.fromProxy(req.http),
		Remote:     remote,
	}
	reply, handshake, err := source.Provider.Handshake(&req.incoming, secrets)
	if err != nil {
		return r.unverified(req, &req.incoming, err), false
	}
	if handshake {
		r.arrived(req, reply.Arrived)
		return result{outcome: outcomeHandshake, reply: reply}, false
	}
	if !source.deliveries[req.incoming.Method] {
		return r.refuse(req, nil, reasonMethod, ""), false // only a handshake comes by it
	}
	return source.product.take(req, secrets)
}

// write sends the answer.
func (r *Receiver) write(c echo.Context, req *request, reply *providers.Reply, res *result) error {
	header := c.Response().Header()
	maps.Copy(header, reply.Header)
	header[headerRequestID] = []string{req.id}
	if reply.Status < 300 && !res.event.IsZero() {
		header["Oncegate-Event"] = []string{res.event.String()}
	}
	if reply.Status == http.StatusMethodNotAllowed {
		if expected := req.http.Header.Get(HeaderExpectAddress); expected != "" {
			header.Set(HeaderAddressExpected, strconv.FormatBool(r.address(req.http, req.source.ExternalURL) == expected))
		}
	}
	if res.unread {
		r.hurry(req.w, req.http)
	}
	if len(reply.Body) == 0 {
		return c.NoContent(reply.Status)
	}
	return c.Blob(reply.Status, reply.ContentType, reply.Body)
}
