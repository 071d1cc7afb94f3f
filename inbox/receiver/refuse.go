package receiver

import (
	"errors"
	"math"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/providers"
)

// precheck refuses what needs no body to be refused.
func (e *endpoint) precheck(req *http.Request) reason {
	if !e.methods[req.Method] {
		return reasonMethod
	}
	for _, encoding := range req.Header["Content-Encoding"] {
		if encoding != "" && !strings.EqualFold(encoding, "identity") && !e.encodings[strings.ToLower(encoding)] {
			return reasonContentEncoding
		}
	}
	if req.ContentLength > e.maxBody {
		return reasonTooLarge
	}
	// A request without a content type is accepted: the signature decides.
	if len(e.contentTypes) > 0 {
		for _, given := range req.Header["Content-Type"] {
			if e.contentTypes[given] {
				continue
			}
			media, _, err := mime.ParseMediaType(given)
			if err != nil || !e.contentTypes[media] {
				return reasonContentType
			}
		}
	}
	return ""
}

// unverified turns a provider's error into a result. Only a refusal is the
// sender's; anything else is ours.
func (r *Receiver) unverified(req *request, incoming *providers.Request, err error) result {
	// The sender may be right and its key new, or anybody may have invented one.
	if deferral, ok := errors.AsType[*providers.Deferral](err); ok {
		r.logKeyAwaited(req, deferral)
		return result{outcome: outcomeKeyAwaited, problem: problem{retryAfter: int(math.Ceil(deferral.After.Seconds()))}}
	}
	var refusal *providers.Refusal
	if !errors.As(err, &refusal) {
		r.logUnverified(req, err)
		return result{outcome: outcomeUnavailable}
	}
	// Both mean that the time is authentic and nothing else is wrong. A sender of many stale
	// signatures affects only its own deliveries: a delivery in time never gets here.
	if (refusal.Reason == providers.ReasonStale || refusal.Reason == providers.ReasonEarly) && r.cfg.Doubted != nil && r.cfg.Doubted(req.http.Context()) {
		r.logDoubted(req, refusal)
		return result{outcome: outcomeDoubted}
	}
	res := r.refuse(req, incoming, reason(refusal.Reason), refusal.Detail)
	if refusal.Reply != nil {
		res.reply = *refusal.Reply
	}
	if refusal.Problem != "" {
		res.code = Code(refusal.Problem)
	}
	return res
}

// arrived shows the operator a secret that a handshake brought: it is stored as the body of a
// refusal, which only the operator can read. It is not trusted before the operator has added it
// to the source.
func (r *Receiver) arrived(req *request, secret *providers.Secret) {
	if secret == nil || r.cfg.Refusals == nil {
		return
	}
	r.cfg.Refusals.Add(refusal.Refusal{
		SourceID:   req.source.Inbox.ID,
		ReceivedAt: req.started.UTC().Truncate(time.Microsecond),
		Cause:      string(providers.ReasonMismatch),
		Diagnosis:  "a handshake brought a new secret, which is the body kept here; if you have just subscribed, the page of the provider says what to do with it",
		Method:     req.incoming.Method,
		URL:        req.http.URL.EscapedPath(),
		Remote:     r.remote(req.http),
		Whole:      true,
		Body:       secret.Value,
	})
}

// refuse counts, samples and logs a refusal. A well-formed delivery whose
// signature does not match is kept whole, for the day a rotation was botched. A message of a broker is always kept whole,
// because its sender does not send it again. If there is no room for it, refuse returns a result that makes it wait.
func (r *Receiver) refuse(req *request, incoming *providers.Request, why reason, detail string) result {
	source := req.source
	if r.cfg.Refusals != nil {
		refusal := refusal.Refusal{
			SourceID:   source.Inbox.ID,
			ReceivedAt: req.started.UTC().Truncate(time.Microsecond),
			Cause:      string(why),
			Diagnosis:  detail,
			Method:     req.http.Method,
			URL:        req.http.URL.EscapedPath(),
			Remote:     r.remote(req.http),
		}
		if incoming != nil {
			refusal.ReceivedAt = incoming.ReceivedAt
			refusal.Body = incoming.Body
			if why == reason(providers.ReasonMismatch) || req.message != nil {
				refusal.Whole = true
				refusal.Headers = marshalHeaders(req.http.Header, source.keep)
				refusal.Diagnose = source.diagnosis(incoming)
			}
		}
		if !r.cfg.Refusals.Add(refusal) && req.message != nil {
			return result{outcome: outcomeOverloaded, problem: problem{retryAfter: 1}} // its broker would forget it
		}
	}
	r.logRefusal(req, why, detail)
	return result{
		outcome: outcomeRefused, reason: why, problem: problem{detail: detail},
		unread: incoming == nil && req.http.ContentLength != 0 && !why.afterBody(),
	}
}

// afterBody reports whether deliveries are refused for the reason only after they were verified,
// and so after their body was read.
func (why reason) afterBody() bool {
	switch why {
	case reasonQuota, reasonFollowHeader, reasonParent, reasonParentUnsettled, reasonParentPruned, reasonFollowed, reasonResumeDiffers, reasonNotAllowed, reasonUnknownOperation, reasonContractVersion, reasonSchema, reasonIntent, reasonSuspectedRepeat:
		return true
	default:
		return false
	}
}

// diagnoser is a provider that can say why a request does not verify.
type diagnoser interface {
	Diagnose(req *providers.Request, secrets []providers.Secret, opts providers.DiagnoseOptions) *providers.Diagnosis
}

// diagnosis is a function that the store of refusals may call after the sender was answered. It
// keeps the request's headers but never its body, which is reused.
func (e *endpoint) diagnosis(incoming *providers.Request) func(body []byte) (finding, text string) {
	p, ok := e.Provider.(diagnoser)
	if !ok {
		return nil
	}
	req, secrets := *incoming, e.Secrets()
	req.Body = nil
	return func(body []byte) (string, string) {
		again := req
		again.Body = body
		d := p.Diagnose(&again, secrets, providers.DiagnoseOptions{})
		if d.Reason != providers.ReasonMismatch { // a handshake's token was refused
			return "", ""
		}
		return d.Kind(), d.String()
	}
}
