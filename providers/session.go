package providers

import "strings"

// Headers by which a call under an agent's session says which step of its run it is. The rest of
// the key is the session's.
const (
	// The step of its run that a call under a session is; the key is made of the run and the step.
	HeaderStep = "Oncegate-Step"
	// Tells the repetitions of a step apart, if it is meant to happen several times in a run.
	HeaderTick = "Oncegate-Tick"
)

// Session is an agent's session, as far as the key of a call under it depends on it.
type Session struct {
	// Credential is the name of the credential that opened it.
	Credential string

	// Run is the run that the session is for.
	Run string
}

// SessionToken gives the token of a session if that is what the request presents instead of a
// secret. It only looks at the form: nobody knows yet whether there is such a session.
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

// SessionCall reads a call under a session, which is known to be open. The key is made of the
// session's run and of what the call says of its step, as a recipe of these parts makes it,
// whatever the source says of keys: two calls have one key only if they agree in credential,
// operation, run, step and tick. The error is always a *[Refusal], for the caller.
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

// maxPart bounds a part of a key that a caller gives. What is longer is hardly a name.
const maxPart = 1024

// parts are those of the key of a call: the run, the step and, if it has one, the tick.
func (s Session) parts(req *Request) ([]string, *Refusal) {
	parts := []string{s.Run}
	for _, name := range []string{HeaderStep, HeaderTick} {
		value, present, err := header(req, []string{name})
		switch {
		case err != nil:
			return nil, unidentified(ProblemInvalidKey, err.Detail)
		case present == "" && name == HeaderStep:
			return nil, unidentified(ProblemMissingKey, "header "+HeaderStep+" is missing: it tells the calls of the session's run apart")
		case present == "":
			continue
		case value == "" || len(value) > maxPart:
			return nil, unidentified(ProblemInvalidKey, "header "+name+" is empty or longer than 1024 bytes")
		}
		parts = append(parts, value)
	}
	return parts, nil
}

// OperationID makes the event id of an operation whose key is made of parts, as a recipe of these
// parts makes it.
func OperationID(credential, operation string, parts ...string) string {
	scope := credential + ":" + operation + ":"
	return scope + shortened(KeyFrom(parts...), maxID-len(scope))
}

// OwnsCall reports whether an operation, by its event id, is a call of the session's run. Where the
// parts were too long and the id holds a digest of them, the request must name the step again.
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

// splitOperationID takes the event id of a credential's operation apart.
func splitOperationID(eventID, credential string) (operation, key string, ok bool) {
	rest, ok := strings.CutPrefix(eventID, credential+":")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

// operationOf reads which operation a call names, which must be one that is declared.
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
