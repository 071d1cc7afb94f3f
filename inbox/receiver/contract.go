package receiver

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/internal/visible"
	"github.com/oncegate/oncegate/providers"
)

// contractDocument lists the operations that a caller may call, and how to call them. They are a tool list for an agent: each has
// a name, a description and an input schema. Programs read its members: never change one.
type contractDocument struct {
	Source     string              `json:"source"`
	Credential string              `json:"credential"`
	Tenant     string              `json:"tenant,omitempty"`
	Run        string              `json:"run,omitempty"`
	Operations []contractOperation `json:"operations"`
	// OtherOperations: the source declares none, so it takes operations of any name.
	OtherOperations bool                    `json:"other_operations"`
	Limits          contractLimits          `json:"limits"`
	Statuses        []statusMeaning         `json:"statuses"`
	Next            []operation.NextMeaning `json:"next"`
}

type contractOperation struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	// Versions are those that the header Oncegate-Contract may name; empty asks for none.
	Versions string           `json:"versions,omitempty"`
	Key      contractKey      `json:"key"`
	Compare  string           `json:"compare"`
	Volatile []string         `json:"volatile,omitempty"`
	InFlight string           `json:"in_flight"`
	Repeats  *contractRepeats `json:"repeats,omitempty"`
	KeptFor  int64            `json:"kept_for_seconds,omitempty"`
}

// contractKey says what makes the key of a call: a header of the caller's own, or fields of the call.
type contractKey struct {
	Header    string   `json:"header,omitempty"`
	MinLength int      `json:"min_length,omitempty"`
	Fields    []string `json:"fields,omitempty"`
}

type contractRepeats struct {
	Within int64  `json:"within_seconds"`
	Answer string `json:"answer"`
}

type contractLimits struct {
	MaxBody     int64           `json:"max_body_bytes"`
	LongestWait int64           `json:"longest_wait_seconds"`
	NewKeys     []contractQuota `json:"new_keys,omitempty"`
}

// contractQuota bounds new keys in each process of the server.
type contractQuota struct {
	Of     string  `json:"of"`
	Burst  float64 `json:"burst"`
	Minute float64 `json:"per_minute"`
}

type statusMeaning struct {
	Status  operation.ResultStatus `json:"status"`
	Meaning string                 `json:"meaning"`
}

var statusMeanings = []statusMeaning{
	{operation.ResultDone, "Everything happened, or was not to happen."},
	{operation.ResultFailed, "Nothing happened. next says whether the same call can end otherwise."},
	{operation.ResultPartial, "Some effects happened and some did not: effects shows which. What happened stays; it is never undone and, if the call is resumed, never repeated."},
	{operation.ResultIndeterminate, "Something may have happened; the outcome is still unknown. A person or a probe decides."},
}

// HandleContract answers with the operations that the caller may call: GET /in/:source/operations.
func (r *Receiver) HandleContract(c echo.Context) error {
	source := r.sources[c.Param("source")]
	if source == nil || !source.operation {
		return r.HandleStatus(c)
	}
	req := r.newRequest(c)
	r.metrics.inFlight.Add(1)
	defer r.metrics.inFlight.Add(-1)
	connectionOf(req.http.Context()).arrived(r.cfg.SystemNow())
	res, reply := r.operations.contract(req)
	source.count.observeStatus(&res, req.tenant(), req.started, r.cfg.Now().Sub(req.started), 0)
	return r.write(c, req, &reply, &res)
}

func (o *operations) contract(req *request) (result, providers.Reply) {
	source := req.source
	if req.http.Method != http.MethodGet && req.http.Method != http.MethodHead {
		res := o.refuse(req, nil, reasonMethod, "")
		reply := answerCaller(source, &res)
		reply.Header = withHeader(reply.Header, "Allow", "GET, HEAD")
		return res, reply
	}
	known, ok := source.Provider.(callerVerifier)
	if !ok {
		res := o.refuse(req, nil, reasonUnknownEvent, "")
		return res, answerCaller(source, &res)
	}
	incoming := o.bareRequest(req)
	credential, err := o.verifyCaller(req, &incoming, known)
	if err != nil {
		res := o.unverifiedCall(req, nil, err)
		return res, answerCaller(source, &res)
	}
	req.caller = o.findCaller(req, credential)
	text, err := json.Marshal(req.contract())
	if err != nil { // a schema that is no JSON, which was read as JSON
		o.logUnrecorded(req, err)
		res := result{outcome: outcomeUnavailable}
		return res, answerCaller(source, &res)
	}
	body := visible.JSON(text)
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	reply := providers.Reply{Status: http.StatusOK, ContentType: "application/json", Body: body}
	if matchesTag(req.http.Header["If-None-Match"], tag) {
		reply = providers.Reply{Status: http.StatusNotModified}
	}
	reply.Header = http.Header{"Etag": {tag}, "Cache-Control": {"private, no-cache"}, "Vary": {"Authorization"}}
	return result{outcome: outcomeStatus}, reply
}

// matchesTag reports whether the caller has the document with the tag (RFC 9110, 13.1.2).
func matchesTag(given []string, tag string) bool {
	for _, header := range given {
		for one := range strings.SplitSeq(header, ",") {
			if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}

func (req *request) contract() *contractDocument {
	source := req.source
	out := &contractDocument{
		Source: source.name, Credential: req.caller.credential, Tenant: req.tenant(), Operations: []contractOperation{}, OtherOperations: source.Operations == nil && req.caller.operations == nil,
		Limits:   contractLimits{MaxBody: source.maxBody, LongestWait: int64(max(source.longestWait, 0) / time.Second)},
		Statuses: statusMeanings, Next: operation.NextMeanings(),
	}
	if req.session != nil {
		out.Run = req.session.Run
	}
	for _, q := range req.caller.quotas {
		out.Limits.NewKeys = append(out.Limits.NewKeys, contractQuota{Of: q.owner, Burst: q.burst, Minute: q.perSecond * 60})
	}
	for _, name := range source.operationNames(&req.caller) {
		if req.caller.mayCall(name) {
			out.Operations = append(out.Operations, req.contractOf(name))
		}
	}
	return out
}

// operationNames are the operations that the source declares. Where it declares none, they are those that the caller may call or
// that a route names.
func (e *endpoint) operationNames(c *caller) []string {
	if e.Operations != nil {
		return slices.Sorted(maps.Keys(e.Operations))
	}
	names := slices.Clone(c.operations)
	for i := range e.Inbox.Routes {
		for _, name := range e.Inbox.Routes[i].Types {
			if !strings.Contains(name, "*") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var inFlightTexts = map[InFlight]string{InFlightConflict: "409", InFlightAccepted: "202", InFlightWait: "wait"}

func (req *request) contractOf(name string) contractOperation {
	e := req.source
	o := e.declared(name)
	out := contractOperation{
		Name: name, Description: cmp.Or(o.Description, "Operation "+name+" of source "+e.name+"."), InputSchema: o.Schema, Versions: o.Versions.String(),
		Compare: "canonical", Volatile: o.Volatile, InFlight: inFlightTexts[o.InFlight], KeptFor: int64(max(o.Keep, e.Inbox.Tombstone) / time.Second),
	}
	if o.Schema == nil {
		out.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	if o.Exact || e.Operations == nil {
		out.Compare = "exact"
	}
	switch fields := o.Key; {
	case req.session != nil:
		out.Key.Fields = []string{"header.Oncegate-Step", "header.Oncegate-Tick"}
	case len(fields) > 0:
		out.Key.Fields = fields
	case len(e.KeyFields) > 0:
		out.Key.Fields = e.KeyFields
	default:
		out.Key = contractKey{Header: "Idempotency-Key", MinLength: o.MinKey}
	}
	if repeats := e.repeatsOf(name); repeats.Within > 0 {
		out.Repeats = &contractRepeats{Within: int64(repeats.Within / time.Second), Answer: "flag"}
		if repeats.Refuse {
			out.Repeats.Answer = "409"
		}
	}
	return out
}
