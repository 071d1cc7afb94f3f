package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/visible"
)

// Outcomes returns the outcomes of events. [inbox.Operations] is one.
type Outcomes interface {
	// Await returns the result of an operation; ok is false if it was not at rest within atMost, which may
	// be 0.
	Await(ctx context.Context, event inbox.ID, atMost time.Duration) (document []byte, ok bool, err error)

	// Outcome returns the current state of the effects of an event.
	Outcome(ctx context.Context, event inbox.ID) (*inbox.EventOutcome, error)

	// Find returns the event of a credential's operation, by its whole key or by our id, or
	// [inbox.ErrNotFound].
	Find(ctx context.Context, source int32, credential, ref string) (inbox.ID, error)

	// FindKey returns the one of two event ids that is recorded, the first if both are, or
	// [inbox.ErrNotFound]. former may be empty.
	FindKey(ctx context.Context, source int32, eventID, former string) (string, error)

	// FollowedCall returns the call that another one wants to follow, or [inbox.ErrNotFound].
	FollowedCall(ctx context.Context, f *inbox.Follow) (*inbox.FollowedCall, error)

	// RecentCall returns the call with the hash that was recorded within its window, and its whole key, or
	// [inbox.ErrNotFound].
	RecentCall(ctx context.Context, source int32, hash [sha256.Size]byte) (event inbox.ID, key string, err error)
}

// DefaultLongestWait is how long an operation may be waited for, if the source
// does not say otherwise.
const DefaultLongestWait = 30 * time.Second

// stateInFlight is the state of an operation that has no result yet.
const stateInFlight = "in_flight"

// lookupTimeout bounds the receiver's own database queries, outside the gate.
const lookupTimeout = 5 * time.Second

// prepare makes the checks of an operation before it is recorded. It returns false, with the result, if
// the operation must not be recorded.
func (r *Receiver) prepare(req *request, delivery *providers.Delivery, event *inbox.NewEvent, body []byte) (result, bool) {
	source := req.source
	ctx, cancel := context.WithTimeout(req.http.Context(), lookupTimeout)
	defer cancel()
	if !req.caller.mayCall(event.Type) {
		return r.refuse(req, nil, reasonNotAllowed, "credential "+req.caller.credential+" may not call operation "+event.Type), false
	}
	if res, ok := r.settleKey(ctx, req, delivery.GivenKey, event); !ok {
		return res, false
	}
	if res, ok := r.checkDeclared(ctx, req, event, body); !ok {
		return res, false
	}
	if res, ok := r.checkIntent(ctx, req, event, body); !ok {
		return res, false
	}
	credential := req.caller.credential
	if res, ok := r.checkFollow(ctx, req, event, body); !ok {
		return res, false
	}
	if res, ok := r.checkRepeat(ctx, req, event, body); !ok {
		return res, false
	}
	taken, after, owner := req.caller.takeKey(req.started)
	if taken {
		req.tookKey = len(req.caller.quotas) > 0
		return result{}, true
	}
	// Only new keys are refused: a repeated call gets its answer.
	switch _, err := r.cfg.Outcomes.Find(ctx, source.Inbox.ID, credential, event.EventID); {
	case errors.Is(err, inbox.ErrNotFound):
		res := r.refuse(req, nil, reasonQuota, "the quota of new keys of "+owner+" is used up for now")
		res.problem.retryAfter = after
		return res, false
	case err != nil:
		r.logUnrecorded(req, err)
		return result{outcome: outcomeUnavailable}, false
	}
	return result{}, true
}

// outcomeReply answers a recorded operation, or a duplicate of a source that answers with outcomes. It
// returns false if the ordinary answer applies.
func (r *Receiver) outcomeReply(req *request, res *result) (providers.Reply, bool) {
	if r.cfg.Outcomes == nil || res.event.IsZero() {
		return providers.Reply{}, false
	}
	switch {
	case res.outcome == outcomeDuplicate && req.source.operation:
		return r.repeated(req, res), true
	case res.outcome == outcomeConflict && req.source.operation:
		return r.differs(req, res), true
	case (res.outcome == outcomeRecorded || res.outcome == outcomeUnusable) && req.source.operation:
		return r.first(req, res), true
	case res.outcome == outcomeDuplicate && req.source.AnswerOutcome && res.single:
		return r.duplicate(req, res)
	}
	return providers.Reply{}, false
}

// first answers the call that made the event. The answer promises only that it is recorded; it includes
// the result if that comes while the caller waits.
func (r *Receiver) first(req *request, res *result) providers.Reply {
	reply := acknowledgeCaller(req.source, res)
	reply.Header = withHeader(reply.Header, "Location", req.source.location(res.event))
	wait := req.wait()
	if wait <= 0 {
		return req.withFacts(reply, res)
	}
	document, ok, err := r.await(req, res.event, wait)
	switch {
	case err != nil:
		r.logUnrecorded(req, err)
	case ok:
		reply = resultOf(document)
		reply.Header = withHeader(reply.Header, "Location", req.source.location(res.event))
	}
	reply.Header = withHeader(reply.Header, "Preference-Applied", applied(wait))
	return req.withFacts(reply, res)
}

// repeated answers a call that was made before: with its result or, as long as there is none, with the
// request to ask again.
func (r *Receiver) repeated(req *request, res *result) providers.Reply {
	declared := req.source.declared(req.known.operation)
	wait := req.wait()
	if wait == 0 && declared.InFlight == InFlightWait {
		wait = max(req.source.longestWait, 0)
	}
	document, ok, err := r.await(req, res.event, wait)
	var reply providers.Reply
	switch {
	case err != nil:
		r.logUnrecorded(req, err)
		res.outcome = outcomeUnavailable
		reply = answerCaller(req.source, res)
	case ok:
		reply = resultOf(document)
		reply.Header = withHeader(reply.Header, "Idempotent-Replayed", "true")
	case declared.InFlight == InFlightAccepted:
		res.outcome = outcomeInFlight
		reply = req.source.inFlight(res.event)
	default:
		res.outcome, res.problem.state = outcomeInFlight, stateInFlight
		reply = answerCaller(req.source, res)
	}
	reply.Header = withHeader(reply.Header, "Location", req.source.location(res.event))
	if wait > 0 {
		reply.Header = withHeader(reply.Header, "Preference-Applied", applied(wait))
	}
	return req.withFacts(reply, res)
}

// duplicate answers a provider's sender with the outcome of the event that it delivered before. If the
// outcome cannot be read, the ordinary answer says that it is a duplicate.
func (r *Receiver) duplicate(req *request, res *result) (providers.Reply, bool) {
	ctx, cancel := context.WithTimeout(req.http.Context(), lookupTimeout)
	defer cancel()
	outcome, err := r.cfg.Outcomes.Outcome(ctx, res.event)
	if err != nil {
		r.logUnrecorded(req, err)
		return providers.Reply{}, false
	}
	for i := range outcome.Effects { // the targets' answers are only for callers of operations
		outcome.Effects[i].Code, outcome.Effects[i].Detail = "", ""
	}
	text, err := json.Marshal(struct {
		Event   inbox.ID              `json:"event"`
		Status  inbox.Outcome         `json:"status"`
		Effects []inbox.EffectOutcome `json:"effects"`
	}{res.event, res.status, outcome.Effects})
	if err != nil {
		r.logUnrecorded(req, err)
		return providers.Reply{}, false
	}
	reply := acknowledge(req.source, res)
	reply.ContentType, reply.Body = "application/json", visible.JSON(text)
	return reply, true
}

// HandleStatus answers a caller with the outcome of an earlier operation of the same credential: GET
// /in/:source/:event, where event is our id.
func (r *Receiver) HandleStatus(c echo.Context) error {
	req := &request{http: c.Request(), w: c.Response().Writer, started: r.cfg.Now()}
	req.id = r.requestID(req.http)
	req.source = r.sources[c.Param("source")]
	if req.source == nil || !req.source.operation || r.cfg.Outcomes == nil {
		r.metrics.unknown.Inc()
		reply := bare(http.StatusNotFound, "", "")
		return r.write(c, req, &reply, &result{outcome: outcomeRefused, reason: reasonUnknownSource, unread: true})
	}
	r.metrics.inFlight.Add(1)
	defer r.metrics.inFlight.Add(-1)
	connectionOf(req.http.Context()).arrived(r.cfg.SystemNow())
	res, reply := r.status(req, c.Param("event"))
	req.source.count.observeStatus(&res, req.tenant(), req.started, r.cfg.Now().Sub(req.started), req.waited)
	return r.write(c, req, &reply, &res)
}

// status finds the event only for its credential: an event of another credential is not found.
func (r *Receiver) status(req *request, ref string) (result, providers.Reply) {
	source := req.source
	refused := func(why reason) (result, providers.Reply) {
		res := r.refuse(req, nil, why, "")
		return res, answer(source, &res)
	}
	if req.http.Method != http.MethodGet && req.http.Method != http.MethodHead {
		res := r.refuse(req, nil, reasonMethod, "")
		reply := answerCaller(source, &res)
		reply.Header = withHeader(reply.Header, "Allow", "GET, HEAD")
		return res, reply
	}
	known, ok := source.Provider.(callerVerifier)
	if !ok {
		return refused(reasonUnknownEvent)
	}
	incoming := providers.Request{
		Method: req.http.Method, URL: r.address(req.http, source.ExternalURL), Header: req.http.Header,
		ReceivedAt: req.started.UTC().Truncate(time.Microsecond),
	}
	credential, err := r.verifyCaller(req, &incoming, known)
	if err != nil {
		res := r.unverified(req, nil, err)
		return res, answer(source, &res)
	}
	req.caller = source.callers.find(credential)
	fault := func(err error) (result, providers.Reply) {
		r.logUnrecorded(req, err)
		res := result{outcome: outcomeUnavailable}
		return res, answerCaller(source, &res)
	}
	if _, err := inbox.ParseID(ref); err != nil {
		return refused(reasonUnknownEvent)
	}
	event, err := r.findOwn(req.http.Context(), req, credential, ref)
	if errors.Is(err, inbox.ErrNotFound) {
		return refused(reasonUnknownEvent)
	}
	if err != nil {
		return fault(err)
	}
	wait := req.wait()
	document, ok, err := r.await(req, event, wait)
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

// inFlight is the answer that there is no result yet.
func (e *endpoint) inFlight(event inbox.ID) providers.Reply {
	text, err := json.Marshal(inFlightDocument{
		Event: event.String(), Status: stateInFlight, State: stateInFlight, Retriable: true, Next: inbox.NextWait, RetryAfter: 1, ExpiresAt: e.expires(event),
	})
	if err != nil { // texts, numbers and times always marshal
		return bare(http.StatusServiceUnavailable, "Retry-After", afterFault)
	}
	reply := providers.Reply{Status: http.StatusAccepted, ContentType: "application/json", Body: text}
	reply.Header = withHeader(reply.Header, "Retry-After", afterFlight)
	return reply
}

func resultOf(document []byte) providers.Reply {
	return providers.Reply{Status: http.StatusOK, ContentType: "application/json", Body: document}
}

func withHeader(h http.Header, name, value string) http.Header {
	if h == nil {
		h = http.Header{}
	}
	h.Set(name, value)
	return h
}

// location is the address at which the caller can ask later.
func (e *endpoint) location(event inbox.ID) string {
	base := "/in/" + e.name
	if e.ExternalURL != "" {
		base = strings.TrimSuffix(e.ExternalURL, "/")
	}
	return base + "/" + event.String()
}

// wait is how long the caller would like to wait (RFC 7240, 4.3), at most as long
// as the source allows.
func (req *request) wait() time.Duration {
	for _, header := range req.http.Header["Prefer"] {
		for preference := range strings.SplitSeq(header, ",") {
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				return 0
			}
			return min(time.Duration(seconds)*time.Second, req.source.longestWait)
		}
	}
	return 0
}

func applied(wait time.Duration) string {
	return "wait=" + strconv.Itoa(int(math.Ceil(wait.Seconds())))
}
