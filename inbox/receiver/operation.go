package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/providers"
)

// Outcomes returns the outcomes of events. [operation.Store] is one.
type Outcomes interface {
	// Await returns the result of an operation; ok is false if it was not at rest within atMost, which may
	// be 0.
	Await(ctx context.Context, event inbox.ID, atMost time.Duration) (document []byte, ok bool, err error)

	// Outcome returns the current state of the effects of an event.
	Outcome(ctx context.Context, event inbox.ID) (*operation.EventOutcome, error)

	// Find returns the event of a credential's operation, by its whole key or by our id, or
	// [inbox.ErrNotFound].
	Find(ctx context.Context, source int32, credential, ref string) (inbox.ID, error)

	// FindKey reports whether an event with the id is recorded.
	FindKey(ctx context.Context, source int32, eventID string) (bool, error)

	// FollowedCall returns the call that another one wants to follow, or [inbox.ErrNotFound].
	FollowedCall(ctx context.Context, f *inbox.Follow) (*operation.FollowedCall, error)

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

// first answers the call that made the event. The answer promises only that it is recorded; it includes
// the result if that comes while the caller waits.
func (o *operations) first(req *request, res *result) providers.Reply {
	reply := acknowledgeCaller(req.source, res)
	reply.Header = withHeader(reply.Header, "Location", req.source.location(res.event))
	wait := req.wait()
	if wait <= 0 {
		return req.withFacts(reply, res)
	}
	document, ok, err := o.await(req, res.event, wait)
	switch {
	case err != nil:
		o.logUnrecorded(req, err)
	case ok:
		reply = resultOf(document)
		reply.Header = withHeader(reply.Header, "Location", req.source.location(res.event))
	}
	reply.Header = withHeader(reply.Header, "Preference-Applied", applied(wait))
	return req.withFacts(reply, res)
}

// repeated answers a call that was made before: with its result or, as long as there is none, with the
// request to ask again.
func (o *operations) repeated(req *request, res *result) providers.Reply {
	declared := req.source.declared(req.known.operation)
	wait := req.wait()
	if wait == 0 && declared.InFlight == InFlightWait {
		wait = max(req.source.longestWait, 0)
	}
	document, ok, err := o.await(req, res.event, wait)
	var reply providers.Reply
	switch {
	case err != nil:
		o.logUnrecorded(req, err)
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

// inFlight is the answer that there is no result yet.
func (e *endpoint) inFlight(event inbox.ID) providers.Reply {
	text, err := json.Marshal(inFlightDocument{
		Event: event.String(), Status: stateInFlight, State: stateInFlight, Retriable: true, Next: operation.NextWait, RetryAfter: 1, ExpiresAt: e.expires(event),
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
