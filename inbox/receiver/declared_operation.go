package receiver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/providers"
)

// DefaultMinKey is how many characters a key that a caller chose has at least, where operations are
// declared: shorter ones are counters, and two callers soon choose the same.
const DefaultMinKey = 16

// Operation is what a source declares about one of its operations.
type Operation struct {
	// Description says in a sentence what the operation does, for callers and models that read their contract.
	Description string

	// Schema is the JSON Schema of the payload, which callers are shown; nil is any object. Check decides.
	Schema []byte

	// Key are the fields that the key is made of; empty uses the source's, or a key that the caller chooses. Volatile
	// are the members that comparisons ignore, and Exact compares numbers and texts as they are written. Keep is how
	// long keys and results are kept, if that is longer than the source's tombstones. All four are shown to callers;
	// the provider and the source decide.
	Key      []string
	Volatile []string
	Exact    bool
	Keep     time.Duration

	// Check returns the JSON paths at which a payload does not fit the schema, and one line that says why, without a
	// value; both are empty if it fits. nil accepts every payload.
	Check func(payload []byte) (paths []string, detail string)

	// Versions are the contract versions that are accepted. nil asks for none.
	Versions Versions

	// MinKey is how many characters a key that the caller chose must have; 0 is no limit. A
	// shorter key that is recorded already is answered.
	MinKey int

	// InFlight says how a call is answered that repeats one without a result.
	InFlight InFlight

	// Repeats says how calls of the operation that are made again under another key are handled. nil uses the setting
	// of the source.
	Repeats *Repeats
}

// InFlight says how a repeated call of an operation without a result is answered.
type InFlight int

const (
	// InFlightConflict answers 409.
	InFlightConflict InFlight = iota
	// InFlightAccepted answers 202, as the first call was.
	InFlightAccepted
	// InFlightWait waits for the result as long as the source allows, also if the caller does not
	// ask for it, and then answers 409.
	InFlightWait
)

// declared returns what the source declares about an operation, or the source's defaults if it declares none.
func (e *endpoint) declared(operation string) *Operation {
	if o := e.Operations[operation]; o != nil {
		return o
	}
	return &Operation{MinKey: e.MinKey}
}

// repeatsOf returns how calls of the operation that are made again under another key are handled.
func (e *endpoint) repeatsOf(operation string) Repeats {
	if own := e.declared(operation).Repeats; own != nil {
		return *own
	}
	return e.Repeats
}

// checkDeclared refuses a call that its operation does not accept. Nothing of it is recorded, so that the same key can
// be used again. A call that is recorded already is answered, even if the declaration has changed since.
func (o *operations) checkDeclared(ctx context.Context, req *request, event *inbox.NewEvent, body []byte) (result, bool) {
	declared := req.source.declared(event.Type)
	why, detail := reasonContractVersion, checkVersion(declared.Versions, req.http.Header)
	var paths []string
	if detail == "" && declared.Check != nil {
		why = reasonSchema
		paths, detail = declared.Check(body)
	}
	if detail == "" {
		return result{}, true
	}
	switch known, err := o.recorded(ctx, req, event); {
	case err != nil:
		return result{outcome: outcomeUnavailable}, false
	case known:
		return result{}, true
	}
	if why == reasonSchema && providers.JSONAsForm(req.http.Header, body) {
		detail += "; the body looks like JSON, and came as a form: send Content-Type: application/json"
	}
	res := o.refuse(req, nil, why, detail)
	res.problem.paths = paths
	return res, false
}

// recorded reports whether the call's key is recorded.
func (o *operations) recorded(ctx context.Context, req *request, event *inbox.NewEvent) (bool, error) {
	if o.cfg.Outcomes == nil {
		return false, nil
	}
	known, err := o.cfg.Outcomes.FindKey(ctx, req.source.Inbox.ID, event.EventID)
	if err != nil {
		o.logUnrecorded(req, err)
	}
	return known, err
}

func checkVersion(accepted Versions, h http.Header) (detail string) {
	given := h[http.CanonicalHeaderKey(HeaderContract)]
	if accepted == nil {
		return ""
	}
	want := "; accepted is " + accepted.String()
	switch len(given) {
	case 0:
		return "header " + HeaderContract + " is missing" + want
	case 1:
		n, err := version(given[0])
		if err != nil {
			return "header " + HeaderContract + " is not a whole number" + want
		}
		if !accepted.Accept(n) {
			return "version " + strconv.Itoa(n) + " of the contract is not accepted" + want
		}
		return ""
	}
	return "header " + HeaderContract + " is there twice" + want
}

// checkKey refuses a new key that the caller chose and that is too short. A short key that is recorded already is
// accepted.
func (o *operations) checkKey(ctx context.Context, req *request, given *providers.GivenKey, event *inbox.NewEvent) (result, bool) {
	if given == nil || o.cfg.Outcomes == nil {
		return result{}, true
	}
	least := req.source.declared(event.Type).MinKey
	if len(given.Key) >= least {
		return result{}, true
	}
	switch known, err := o.recorded(ctx, req, event); {
	case err != nil:
		return result{outcome: outcomeUnavailable}, false
	case known:
		return result{}, true
	}
	res := o.refuse(req, nil, reason(providers.ReasonUnidentified),
		fmt.Sprintf("the key has %d characters, and at least %d are asked for: name what the call means, such as order-1742/charge", len(given.Key), least))
	res.code = CodeInvalidKey
	return res, false
}
