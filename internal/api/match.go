package api

import (
	"net/http"
	"strings"

	"github.com/oncegate/oncegate/internal/control"
)

// matched is a request that may name the state that its decision is about.
type matched interface {
	SetIfMatch(tag string)
}

// matching is such a request in the client.
type matching interface {
	GetIfMatch() string
}

// tagged is an answer that shows a state that a decision may be about.
type tagged interface {
	Tag() string
}

// readIfMatch passes the If-Match header to a request. A request that cannot use it is refused, because its caller
// relies on the header. An ETag without a state, such as a list's or an empty one, never matches.
func readIfMatch(r *http.Request, request any) error {
	values := r.Header.Values("If-Match")
	if len(values) == 0 {
		return nil
	}
	given := strings.TrimSpace(strings.Join(values, ","))
	into, ok := request.(matched)
	if !ok {
		return &control.Problem{Code: control.CodeInvalid, Detail: "this operation takes no If-Match"}
	}
	tag := given
	if given != "*" {
		if len(given) < 2 || given[0] != '"' || given[len(given)-1] != '"' || strings.Contains(given[1:len(given)-1], `"`) {
			return &control.Problem{Code: control.CodeInvalid, Detail: "If-Match must be the one ETag that was answered, with its quotes"}
		}
		tag, _, _ = strings.Cut(given[1:len(given)-1], ".") // see [etag]
		if tag == "" {
			return &control.Problem{
				Code:   control.CodePrecondition,
				Detail: "the ETag in If-Match names no state that a decision is about: send the ETag of the answer that showed the thing itself",
			}
		}
	}
	into.SetIfMatch(tag)
	return nil
}

// writeIfMatch sets the If-Match header if the request names a state.
func writeIfMatch(header http.Header, request any) {
	from, ok := request.(matching)
	if !ok {
		return
	}
	switch tag := from.GetIfMatch(); tag {
	case "":
	case "*":
		header.Set("If-Match", "*")
	default:
		header.Set("If-Match", `"`+tag+`"`)
	}
}
