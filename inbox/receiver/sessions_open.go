package receiver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/internal/visible"
	"github.com/oncegate/oncegate/providers"
)

// DefaultSession is how long a session lasts if its opener does not say, or as long as the source
// allows if that is shorter.
const DefaultSession = time.Hour

const (
	// maxSessionRequest bounds the body of a request for a session, in bytes.
	maxSessionRequest = 16 << 10
	// maxRun bounds the name of a run, in bytes, and maxSessionOperations the operations of a session.
	maxRun, maxSessionOperations = 256, 100
	// maxSessionKeys bounds the new keys a minute that a session may ask for.
	maxSessionKeys = 1_000_000
)

// HandleSessions opens sessions: POST /in/:source/sessions, by a credential of the source.
func (r *Receiver) HandleSessions(c echo.Context) error {
	if source := r.sources[c.Param("source")]; source == nil || source.sessions == nil || c.Request().Method != http.MethodPost {
		return r.HandleStatus(c)
	}
	return r.handleSession(c, r.operations.openedSession)
}

// HandleSession ends the session whose token it is sent: DELETE /in/:source/sessions/current.
func (r *Receiver) HandleSession(c echo.Context) error {
	if source := r.sources[c.Param("source")]; source == nil || source.sessions == nil || c.Param("session") != "current" || c.Request().Method != http.MethodDelete {
		return r.HandleStatus(c)
	}
	return r.handleSession(c, r.operations.endedSession)
}

func (r *Receiver) handleSession(c echo.Context, serve func(*request) (result, providers.Reply)) error {
	req := r.newRequest(c)
	r.metrics.inFlight.Add(1)
	defer r.metrics.inFlight.Add(-1)
	res, reply := serve(req)
	req.source.count.observeStatus(&res, req.tenant(), req.started, r.cfg.Now().Sub(req.started), 0)
	reply.Header = withHeader(reply.Header, "Cache-Control", "no-store")
	return r.write(c, req, &reply, &res)
}

// sessionRequest is what an engine asks for. Programs write its members: never change one.
type sessionRequest struct {
	Run        string   `json:"run"`
	Operations []string `json:"operations"`
	NewKeys    int      `json:"new_keys"`
	Contract   string   `json:"contract"`
	ExpiresIn  *int64   `json:"expires_in"`
}

// sessionDocument is a session that was opened. Programs read its members: never change one.
type sessionDocument struct {
	Session    string   `json:"session"`
	Token      string   `json:"token"`
	Run        string   `json:"run"`
	Operations []string `json:"operations,omitempty"`
	NewKeys    int      `json:"new_keys,omitempty"`
	Contract   string   `json:"contract,omitempty"`
	ExpiresAt  string   `json:"expires_at"`
}

// openedSession verifies the credential before it reads the body, and opens a session for it. Asking
// again is safe, because the new session makes the same keys: they are made of the run.
func (o *operations) openedSession(req *request) (result, providers.Reply) {
	credential, res, ok := o.sessionOpener(req)
	if !ok {
		res.unread = req.http.ContentLength != 0
		return res, answerCaller(req.source, &res)
	}
	asked, res, ok := o.readSessionRequest(req)
	if !ok {
		return res, answerCaller(req.source, &res)
	}
	opened, err := o.newSession(req, credential, asked)
	if err != nil {
		res, ok := o.unopened(req, err)
		if !ok {
			o.logUnrecorded(req, err)
			res = result{outcome: outcomeUnavailable}
		}
		return res, answerCaller(req.source, &res)
	}
	token := newSessionToken()
	ctx, cancel := context.WithTimeout(req.http.Context(), lookupTimeout)
	defer cancel()
	digest := operation.TokenDigest(token)
	if err := o.tokens.store.Open(ctx, digest, opened); err != nil {
		o.logUnrecorded(req, err)
		res = result{outcome: outcomeUnavailable}
		return res, answerCaller(req.source, &res)
	}
	o.tokens.remember(sessionKey{source: opened.SourceID, digest: digest}, opened, req.started)
	o.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "session opened", slog.String("source", req.source.name), slog.String("session", opened.ID.String()),
		slog.String("credential", opened.Credential), slog.String("run", opened.Run), slog.Time("expires_at", opened.ExpiresAt))
	text, err := json.Marshal(sessionDocument{
		Session: opened.ID.String(), Token: token, Run: opened.Run, Operations: opened.Operations, NewKeys: opened.NewKeys,
		Contract: opened.Contract, ExpiresAt: opened.ExpiresAt.UTC().Format(time.RFC3339),
	})
	if err != nil { // texts and numbers always marshal
		res = result{outcome: outcomeUnavailable}
		return res, answerCaller(req.source, &res)
	}
	return result{outcome: outcomeSession}, providers.Reply{Status: http.StatusCreated, ContentType: "application/json", Body: visible.JSON(text)}
}

// sessionOpener verifies the caller that wants to open a session.
func (o *operations) sessionOpener(req *request) (credential string, res result, ok bool) {
	source := req.source
	incoming := o.bareRequest(req)
	if _, is := o.presentedToken(req, &incoming); is {
		res = o.refuse(req, nil, reasonNotAllowed, "a session cannot open another one; only the engine's own credential can")
		res.code = CodeOperationNotAllowed
		return "", res, false
	}
	verifier, ok := source.Provider.(callerVerifier)
	if !ok {
		return "", o.refuse(req, nil, reasonUnknownEvent, ""), false
	}
	credential, err := verifier.Caller(&incoming, source.Secrets())
	if err != nil {
		return "", o.unverifiedCall(req, nil, err), false
	}
	connectionOf(req.http.Context()).prove()
	req.caller = source.callers.find(credential)
	if res, over := o.overQuota(req); over {
		return "", res, false
	}
	return credential, result{}, true
}

// bareRequest is the request without its body, which does not prove who calls.
func (o *operations) bareRequest(req *request) providers.Request {
	remote, _ := netip.ParseAddr(o.remote(req.http))
	return providers.Request{
		Method: req.http.Method, URL: o.address(req.http, req.source.ExternalURL), Header: req.http.Header,
		ReceivedAt: req.started.UTC().Truncate(time.Microsecond), Proxied: o.fromProxy(req.http), Remote: remote,
	}
}

// readSessionRequest reads the body of a request for a session.
func (o *operations) readSessionRequest(req *request) (asked *sessionRequest, res result, ok bool) {
	if req.http.ContentLength > maxSessionRequest {
		return nil, o.refuse(req, nil, reasonTooLarge, fmt.Sprintf("a request for a session has at most %d bytes", maxSessionRequest)), false
	}
	remote, _ := netip.ParseAddr(o.remote(req.http))
	body, err := o.bodies.read(arriving{w: req.w, http: req.http, limit: maxSessionRequest, share: req.source.share, peer: remote})
	if err != nil {
		return nil, o.unread(req, err), false
	}
	defer body.release()
	connectionOf(req.http.Context()).arrived(o.cfg.SystemNow())
	asked = &sessionRequest{}
	decoder := json.NewDecoder(bytes.NewReader(body.buf))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(asked)
	if err == nil && decoder.More() {
		err = errors.New("there is more than one document")
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	if err != nil {
		res, _ := o.unopened(req, invalidSession("the body is not a JSON document such as {\"run\": \"42\"}: "+strings.TrimPrefix(err.Error(), "json: ")))
		return nil, res, false
	}
	return asked, result{}, true
}

func invalidSession(detail string) *sessionRefusal {
	return &sessionRefusal{reason: reasonInvalidSession, code: CodeInvalidSession, detail: detail}
}

// newSession checks the request against the rights of the credential and the limits of the source.
func (o *operations) newSession(req *request, credential string, asked *sessionRequest) (*operation.AgentSession, error) {
	longest := req.source.Sessions.Longest
	last := min(DefaultSession, longest)
	switch {
	case !isName(asked.Run, maxRun):
		return nil, invalidSession(fmt.Sprintf("run is a text of 1 to %d bytes without control characters: your own id of the run, the same in every session of it", maxRun))
	case !isName(asked.Contract, maxRun) && asked.Contract != "":
		return nil, invalidSession("contract is a contract version, such as 2")
	case asked.NewKeys < 0 || asked.NewKeys > maxSessionKeys:
		return nil, invalidSession(fmt.Sprintf("new_keys is how many new keys the run may take a minute, from 1 to %d; without it the session has no separate limit", maxSessionKeys))
	case asked.Operations != nil && (len(asked.Operations) == 0 || len(asked.Operations) > maxSessionOperations):
		return nil, invalidSession(fmt.Sprintf("operations names 1 to %d operations; leave it out for all that the credential may call", maxSessionOperations))
	}
	if asked.ExpiresIn != nil {
		if *asked.ExpiresIn < 1 || *asked.ExpiresIn > int64(longest/time.Second) {
			return nil, invalidSession(fmt.Sprintf("expires_in is in seconds, from 1 to %d, the longest that the source allows", int64(longest/time.Second)))
		}
		last = time.Duration(*asked.ExpiresIn) * time.Second
	}
	for _, operation := range asked.Operations {
		if !isName(operation, maxRun) {
			return nil, invalidSession("operations has a name that no operation has")
		}
		if !req.caller.mayCall(operation) {
			return nil, &sessionRefusal{reason: reasonNotAllowed, code: CodeOperationNotAllowed, detail: "credential " + credential + " may not call operation " + operation + ", so no session of it may"}
		}
	}
	now := req.started.UTC().Truncate(time.Microsecond)
	return &operation.AgentSession{
		ID: inbox.NewID(now), SourceID: req.source.Inbox.ID, Credential: credential, Run: asked.Run, Operations: asked.Operations,
		NewKeys: asked.NewKeys, Contract: asked.Contract, CreatedAt: now, ExpiresAt: now.Add(last),
	}, nil
}

// isName reports whether a text can be a part of a key and be shown in one line.
func isName(s string, limit int) bool {
	return s != "" && len(s) <= limit && utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c == 0x7f })
}

// newSessionToken makes a token of 256 random bits.
func newSessionToken() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	return providers.SessionTokenOf(base64.RawURLEncoding.EncodeToString(bits[:]))
}

// endedSession ends the session of the token, so that the agent that is done leaves nothing usable.
// Ending a session that is over changes nothing.
func (o *operations) endedSession(req *request) (result, providers.Reply) {
	incoming := o.bareRequest(req)
	token, ok := o.presentedToken(req, &incoming)
	if !ok {
		res := o.refuse(req, nil, reason(providers.ReasonUnsigned), "no token of a session is presented")
		return res, answerCaller(req.source, &res)
	}
	err := o.openSession(req, token, incoming.Remote, req.source.Secrets())
	if err == nil {
		ctx, cancel := context.WithTimeout(req.http.Context(), lookupTimeout)
		defer cancel()
		if err = o.tokens.store.End(ctx, req.session.ID); err == nil {
			o.tokens.forgetSession(req.session.ID)
			return result{outcome: outcomeSession}, providers.Reply{Status: http.StatusNoContent}
		}
	}
	res, ok := o.unopened(req, err)
	switch {
	case !ok:
		o.logUnrecorded(req, err)
		res = result{outcome: outcomeUnavailable}
	case res.code == CodeSessionExpired || res.code == CodeSessionRevoked:
		return result{outcome: outcomeSession}, providers.Reply{Status: http.StatusNoContent}
	}
	return res, answerCaller(req.source, &res)
}
