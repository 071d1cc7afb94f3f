package vectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"reflect"

	"github.com/oncegate/oncegate/providers"
)

// Result is the result of one case.
type Result struct {
	Provider string `json:"provider"`
	Case     string `json:"case"`
	OK       bool   `json:"ok"`
	Want     string `json:"want"`
	Got      string `json:"got"`
	// Detail says why the request was refused or could not be verified, or how the answer
	// differs. It is empty if OK.
	Detail string `json:"detail,omitempty"`
}

// The verdicts.
const (
	accepted = "accepted"
	refused  = "refused"
	fault    = "fault"
)

// Run runs every case.
func Run(all map[string]*providers.Provider, vectors []Vector) []Result {
	out := make([]Result, len(vectors))
	for i := range vectors {
		out[i] = run(all, &vectors[i])
	}
	return out
}

func run(all map[string]*providers.Provider, v *Vector) Result {
	r := Result{Provider: v.Provider, Case: v.Case, Want: refused}
	if v.Valid {
		r.Want = accepted
	}
	p := all[v.Provider]
	if p == nil {
		r.Got, r.Detail = fault, "there is no such provider"
		return r
	}
	p, err := v.tolerate(all, p)
	if err == nil {
		p, err = v.bind(p)
	}
	if err != nil {
		r.Got, r.Detail = fault, err.Error()
		return r
	}
	req, secrets := v.Request(), v.Held()
	reply, handshake, err := p.Handshake(req, secrets)
	if err == nil && !handshake {
		reply = p.Answer(providers.Accepted, "00000000-0000-7000-8000-000000000000", "recorded")
		if v.Kind == "handshake" {
			err = &providers.Refusal{Detail: "it is not recognised as a handshake"}
		} else {
			_, err = p.Verify(req, secrets)
		}
	}
	r.Got = accepted
	if err != nil {
		refusal, ok := errors.AsType[*providers.Refusal](err)
		untimely := ok && (refusal.Reason == providers.ReasonStale || refusal.Reason == providers.ReasonEarly)
		switch {
		case !ok:
			r.Got = fault
		case v.Now == nil && untimely:
			// The request is authentic, and the vector is not bound to a time.
		default:
			r.Got = refused
			if !handshake {
				reply = p.Answer(providers.Refused, "", "")
			}
		}
		r.Detail = err.Error()
	}
	r.OK = r.Got == r.Want
	if r.OK {
		r.Detail = ""
		if differs := v.ExpectResponse.differs(&reply); differs != "" && !(r.Got == refused && reply.Status == 0) {
			r.OK, r.Detail = false, differs
		}
	}
	return r
}

// differs describes the first difference between the reply and the expected answer. It returns "" if there is none.
func (a *Answer) differs(reply *providers.Reply) string {
	if a == nil {
		return ""
	}
	if a.Status != 0 && a.Status != reply.Status {
		return fmt.Sprintf("answered with status %d, want %d", reply.Status, a.Status)
	}
	if a.ContentType != "" {
		media, _, err := mime.ParseMediaType(reply.ContentType)
		if err != nil || media != a.ContentType {
			return fmt.Sprintf("answered with content type %q, want %q", reply.ContentType, a.ContentType)
		}
	}
	for name, want := range a.Headers {
		if got := reply.Header.Get(name); got != want {
			return fmt.Sprintf("answered with %s: %q, want %q", name, got, want)
		}
	}
	if a.Body != nil && *a.Body != string(reply.Body) {
		return fmt.Sprintf("answered with body %q, want %q", reply.Body, *a.Body)
	}
	for _, want := range []json.RawMessage{a.JSON, a.BodyJSON} {
		if len(want) > 0 && !sameJSON(want, reply.Body) {
			return fmt.Sprintf("answered with body %q, want %s", reply.Body, want)
		}
	}
	return ""
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
