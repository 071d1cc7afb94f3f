package receiver

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/providers"
)

// HeaderContract is the contract version that a call was planned for.
const HeaderContract = "Oncegate-Contract"

// SessionLimits says whether a source offers sessions.
type SessionLimits struct {
	// Longest is the longest time that a session may be opened for; 0 offers none.
	Longest time.Duration
}

// sessionProvider is what the receiver asks of a provider for calls under sessions;
// [providers.Provider] is one.
type sessionProvider interface {
	SessionToken(req *providers.Request) (token string, ok bool)
	SessionCall(req *providers.Request, session providers.Session) (*providers.Delivery, error)
}

// newSessionProvider returns the provider that makes the keys of the source's sessions; nil if it
// offers none.
func newSessionProvider(s *Source) (sessionProvider, error) {
	switch p, ok := s.Provider.(sessionProvider); {
	case s.Sessions.Longest == 0:
		return nil, nil //nolint:nilnil // there are no sessions, which is no error
	case s.Sessions.Longest < 0 || !ok || !s.Provider.IsOperation():
		return nil, errors.New("Sessions.Longest must not be negative, and is for operations")
	default:
		return p, nil
	}
}

// sessionRefusal says why a call under a session is refused before anything of the call is read.
type sessionRefusal struct {
	reason reason
	code   Code
	detail string // shown only to a caller that proved that it has the token
}

func (e *sessionRefusal) Error() string { return string(e.reason) + ": " + e.detail }

// verify proves who sends a delivery: by a secret of the source, or by the token of a session.
func (o *operations) verify(req *request, incoming *providers.Request, secrets []providers.Secret) (*providers.Delivery, error) {
	token, ok := o.presentedToken(req, incoming)
	if !ok {
		return req.source.Provider.Verify(incoming, secrets)
	}
	if err := o.openSession(req, token, incoming.Remote, secrets); err != nil {
		return nil, err
	}
	if err := req.agree(req.session.Contract); err != nil {
		return nil, err
	}
	return req.source.sessions.SessionCall(incoming, req.keysOfSession())
}

// verifyCaller verifies the caller that asks about an operation, and returns the credential to
// which the operation must belong.
func (o *operations) verifyCaller(req *request, incoming *providers.Request, known callerVerifier) (credential string, err error) {
	token, ok := o.presentedToken(req, incoming)
	if !ok {
		return known.Caller(incoming, req.source.Secrets())
	}
	peer, _ := netip.ParseAddr(o.remote(req.http))
	if err := o.openSession(req, token, peer, req.source.Secrets()); err != nil {
		return "", err
	}
	return req.session.Credential, nil
}

// callerVerifier verifies the credential of a request that carries no operation.
type callerVerifier interface {
	Caller(req *providers.Request, secrets []providers.Secret) (string, error)
}

// presentedToken returns the token of a session, if the source has sessions.
func (o *operations) presentedToken(req *request, incoming *providers.Request) (string, bool) {
	if req.source.sessions == nil {
		return "", false
	}
	return req.source.sessions.SessionToken(incoming)
}

// openSession finds the session of a token and refuses one that is over. It sets req.session.
func (o *operations) openSession(req *request, token string, peer netip.Addr, secrets []providers.Secret) error {
	found, err := o.tokens.find(req.http.Context(), req.source.Inbox.ID, token, peer, req.started)
	switch {
	case errors.Is(err, inbox.ErrNotFound):
		return &sessionRefusal{reason: reason(providers.ReasonMismatch), code: CodeUnauthorized, detail: "no session has the token"}
	case err != nil:
		return err
	case found.RevokedAt != nil:
		return &sessionRefusal{reason: reasonSessionRevoked, code: CodeSessionRevoked, detail: "session " + found.ID.String() + " was revoked"}
	case found.Ended(req.started):
		return &sessionRefusal{reason: reasonSessionExpired, code: CodeSessionExpired, detail: "session " + found.ID.String() + " expired at " + found.ExpiresAt.UTC().Format(time.RFC3339)}
	case !credentialLives(found.Credential, secrets, req.started):
		return &sessionRefusal{reason: reasonSessionRevoked, code: CodeSessionRevoked, detail: "credential " + found.Credential + ", which opened the session, is not accepted any more"}
	}
	req.session = found
	return nil
}

// credentialLives reports whether a credential still has a secret that is accepted.
func credentialLives(credential string, secrets []providers.Secret, now time.Time) bool {
	return slices.ContainsFunc(secrets, func(s providers.Secret) bool {
		return cmp.Or(s.Credential, s.Name) == credential && (s.NotAfter.IsZero() || now.Before(s.NotAfter))
	})
}

// agree checks that a call has the contract version of its session.
func (req *request) agree(contract string) error {
	if contract == "" {
		return nil
	}
	switch given := req.http.Header.Values(HeaderContract); {
	case len(given) == 0:
		req.http.Header.Set(HeaderContract, contract)
	case len(given) > 1 || given[0] != contract:
		return &sessionRefusal{reason: reasonContractVersion, code: CodeContractVersion, detail: "the session is for contract version " + contract + "; leave header " + HeaderContract + " out"}
	}
	return nil
}

// unverifiedCall is [Receiver.unverified] for a caller, who may have presented the token of a session.
func (o *operations) unverifiedCall(req *request, incoming *providers.Request, err error) result {
	if res, ok := o.unopened(req, err); ok {
		return res
	}
	return o.unverified(req, incoming, err)
}

// unopened returns the result of a call whose session could not be found or is over; ok is false
// for any other error.
func (o *operations) unopened(req *request, err error) (res result, ok bool) {
	if errors.Is(err, errLookupDeferred) {
		return result{outcome: outcomeOverloaded}, true
	}
	refusal, ok := errors.AsType[*sessionRefusal](err)
	if !ok {
		return result{}, false
	}
	res = o.refuse(req, nil, refusal.reason, refusal.detail)
	res.code, res.unread = refusal.code, false
	return res, true
}

// findCaller returns the caller, once the request is verified: the configuration of the
// credential, narrowed by the session if there is one.
func (o *operations) findCaller(req *request, credential string) caller {
	found := req.source.callers.find(credential)
	s := req.session
	if s == nil {
		return found
	}
	if s.Operations != nil { // the session loses what the credential lost since
		allowed := found
		found.operations = []string{}
		for _, operation := range s.Operations {
			if allowed.mayCall(operation) {
				found.operations = append(found.operations, operation)
			}
		}
	}
	if q := o.tokens.runQuota(s, req.started); q != nil {
		found.quotas = append(slices.Clone(found.quotas), q)
	}
	return found
}

// keysOfSession is what the keys of the request's session are made of.
func (req *request) keysOfSession() providers.Session {
	return providers.Session{Credential: req.session.Credential, Run: req.session.Run}
}

// findOwn finds an operation of the caller, by its whole key or by our id. It must be of the
// credential and, under a session, of its run; otherwise findOwn returns [inbox.ErrNotFound].
func (o *operations) findOwn(ctx context.Context, req *request, credential, ref string) (inbox.ID, error) {
	event, err := o.cfg.Outcomes.Find(ctx, req.source.Inbox.ID, credential, ref)
	if err != nil || req.session == nil {
		return event, err
	}
	key, err := o.tokens.store.OperationKey(ctx, event)
	if err != nil {
		return inbox.ID{}, err
	}
	if !req.keysOfSession().OwnsCall(key, &providers.Request{Header: req.http.Header}) {
		return inbox.ID{}, inbox.ErrNotFound
	}
	return event, nil
}
