package expression

import (
	"bytes"
	"cmp"
	"encoding/json"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// Input is one event, for any number of evaluations. Do not copy it.
type Input struct {
	Event Event

	// Body is the event's bytes. An expression sees null if they are not JSON.
	Body []byte

	// Headers contains the recorded headers of the delivery. Expressions look names up in lower
	// case.
	Headers map[string]string

	// ContentType is the content type of the delivery. It defaults to the one in Headers. If the delivery is an HTML form,
	// expressions see the fields of the body as "form", each with its first value.
	ContentType string

	// Key is the effect's idempotency key, for programs from [CompileWithKey]. They see it as
	// "key", and as "key_uuid" the name-based UUID derived from it (RFC 9562, B.2, in the namespace
	// of URLs), for targets that do not accept longer keys.
	Key string

	// Fetched is the answer of the route's fetch as JSON, for programs from [CompileWithFetched] and
	// [CompileWithKey]. They see it as "fetched". Without an answer, an expression that reads it fails with
	// [ErrMissing].
	Fetched []byte

	once    sync.Once
	body    any
	form    map[string]string
	headers map[string]string

	onceFetched sync.Once
	fetched     any // nil without an answer
}

// fetched is the variable with the answer of the fetch.
const fetched = "fetched"

var _ cel.Activation = (*Input)(nil)

// ResolveName implements [cel.Activation].
func (in *Input) ResolveName(name string) (any, bool) {
	switch name {
	case "event":
		return &in.Event, true
	case "body":
		in.once.Do(in.decode)
		return in.body, true
	case "headers":
		in.once.Do(in.decode)
		return in.headers, true
	case "form":
		in.once.Do(in.decode)
		return in.form, true
	case fetched:
		in.onceFetched.Do(in.decodeFetched)
		return in.fetched, in.fetched != nil
	case "key":
		return in.Key, true
	case "key_uuid":
		return keyUUID(in.Key), true
	}
	return nil, false
}

// Parent implements [cel.Activation].
func (in *Input) Parent() cel.Activation { return nil }

func (in *Input) decode() {
	in.headers = make(map[string]string, len(in.Headers))
	for name, value := range in.Headers {
		in.headers[strings.ToLower(name)] = value
	}
	in.body = types.NullValue
	if value, ok := decodeJSON(bytes.NewReader(in.Body)); ok && value != nil {
		in.body = value
	}
	in.form = map[string]string{}
	kind, _, _ := mime.ParseMediaType(cmp.Or(in.ContentType, in.headers["content-type"]))
	if kind != "application/x-www-form-urlencoded" {
		return
	}
	if fields, err := url.ParseQuery(string(in.Body)); err == nil {
		for name := range fields {
			in.form[name] = fields.Get(name)
		}
	}
}

func (in *Input) decodeFetched() {
	value, ok := decodeJSON(bytes.NewReader(in.Fetched))
	if in.fetched = value; ok && value == nil {
		in.fetched = types.NullValue
	}
}

// numbers replaces JSON numbers: an integer of 64 bits becomes an int64, and a number with a
// fraction or an exponent a float64. A number that fits neither stays text.
func numbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		text := v.String()
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i
		}
		if !strings.ContainsAny(text, ".eE") {
			return text
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return text
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	}
	return value
}
