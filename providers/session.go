package providers

import "strings"

// A call under an agent's session uses these headers to identify the step of its run. The session
// determines the rest of the key.
const (
	// HeaderStep is the step of its run that a call under a session executes. Oncegate derives the
	// key from the run and the step.
	HeaderStep = "Oncegate-Step"
	// HeaderTick is a text that distinguishes the repetitions of a step that should happen several
	// times in a run.
	HeaderTick = "Oncegate-Tick"
)

// Session contains those properties of an agent's session that determine the key of a call.
type Session struct {
	// Credential is the name of the credential that opened the session.
	Credential string

	// Run is the run to which the session belongs.
	Run string
}

// SessionToken returns the token of a session if the request has one instead of a secret. It only
// checks the form, so the session may not exist.
func (p *Provider) SessionToken(req *Request) (token string, ok bool) {
	if !p.IsOperation() {
		return "", false
	}
	value, _, err := p.credential(req)
	if err != nil || !IsSessionToken(value) {
		return "", false
	}
	return value, true
}

// SessionCall reads a call under an open session. It derives the key from the session's run and the
// call's step and tick, like a recipe with these parts, and ignores the source's own rule for keys.
// Two calls have the same key only if credential, operation, run, step and tick are equal. The
// error is always a *[Refusal], for the caller.
func (p *Provider) SessionCall(req *Request, session Session) (*Delivery, error) {
	spec := &p.spec.Verify.Operation
	if len(req.Header.Values(spec.Key)) > 0 {
		return nil, unidentified(ProblemKeyNotAllowed, "header "+spec.Key+" is not taken under a session, which makes the key of its run and of header "+HeaderStep)
	}
	name, err := p.operationOf(req)
	if err != nil {
		return nil, err
	}
	parts, err := session.parts(req)
	if err != nil {
		return nil, err
	}
	return &Delivery{
		Credential: session.Credential, IDUnsigned: p.idUnsigned,
		Items: []Item{{EventID: OperationID(session.Credential, name, parts...), Type: name, Length: len(req.Body)}},
	}, nil
}

// maxPart limits a part of a key that a caller sends, in bytes.
const maxPart = 1024

// parts returns the parts of a call's key: the run, the step and, if present, the tick.
func (s Session) parts(req *Request) ([]string, *Refusal) {
	parts := []string{s.Run}
	for _, name := range []string{HeaderStep, HeaderTick} {
		value, present, err := header(req, []string{name})
		switch {
		case err != nil:
			return nil, unidentified(ProblemInvalidKey, err.Detail)
		case present == "" && name == HeaderStep:
			return nil, unidentified(ProblemMissingKey, "header "+HeaderStep+" is missing: it distinguishes the calls of the session's run")
		case present == "":
			continue
		case value == "" || len(value) > maxPart:
			return nil, unidentified(ProblemInvalidKey, "header "+name+" is empty or longer than 1024 bytes")
		}
		parts = append(parts, value)
	}
	return parts, nil
}

// OperationID returns the event id of an operation whose key consists of parts, as a recipe with
// these parts makes it.
func OperationID(credential, operation string, parts ...string) string {
	scope := credential + ":" + operation + ":"
	return scope + shortened(KeyFrom(parts...), maxID-len(scope))
}

// OwnsCall reports whether an operation, identified by its event id, is a call of the session's
// run. If the key was too long and the id contains a digest of it, the request must name the step
// again.
func (s Session) OwnsCall(eventID string, req *Request) bool {
	operation, key, ok := splitOperationID(eventID, s.Credential)
	if !ok {
		return false
	}
	if run, _, several := strings.Cut(key, ":"); several && run == KeyFrom(s.Run) {
		return true
	}
	parts, err := s.parts(req)
	return err == nil && eventID == OperationID(s.Credential, operation, parts...)
}

// splitOperationID separates the event id of a credential's operation into operation and key.
func splitOperationID(eventID, credential string) (operation, key string, ok bool) {
	rest, ok := strings.CutPrefix(eventID, credential+":")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

// operationOf returns the operation that a call names. It refuses an operation that is not
// declared.
func (p *Provider) operationOf(req *Request) (string, *Refusal) {
	spec := &p.spec.Verify.Operation
	name, present, err := header(req, []string{spec.Name})
	switch {
	case err != nil:
		return "", unidentified(ProblemInvalidOperation, err.Detail)
	case present == "":
		return "", unidentified(ProblemMissingOperation, "header "+spec.Name+" is missing")
	case !operationName.MatchString(name):
		return "", unidentified(ProblemInvalidOperation, "header "+spec.Name+" is not a name of a-z, 0-9, ., _ and -, at most 64")
	}
	if _, err := p.recipeOf(name); err != nil {
		return "", err
	}
	return name, nil
}
