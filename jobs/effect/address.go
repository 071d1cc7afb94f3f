package effect

import (
	"bytes"
	"errors"
)

// Addresser is implemented by kinds whose effects do not all go to one address.
type Addresser interface {
	// Address computes the address of a call before its first attempt. The address is stored with the
	// rendered request, and every later attempt gets it as [Call.Address]. It is empty if all calls go
	// to one address. Operators see the error, so it must not quote the event.
	Address(call *Call) (string, error)

	// Reaches reports whether the target, as it is configured now, still has the server of an address
	// that was computed before. Nothing is sent to another server, because it may never have seen the
	// key, and the headers may contain another server's credentials.
	Reaches(address string) bool
}

// Rendered is the part of the request that is fixed before the first attempt of an effect and is the
// same in all attempts.
type Rendered struct {
	// Address is where the attempts go. It is empty if the target has one address for all.
	Address string

	// Body is what the attempts send. nil sends the event's body as received.
	Body []byte
}

// The format of a stored request with an address: the mark, the address, a line that says whether there
// is a body, and the body. No JSON and no message starts with the mark. Stored: never change.
const (
	renderedMark = "\x00address "
	bodyMark     = "\nbody\n"
	receivedMark = "\nreceived\n"
)

// ErrRendered is returned for stored bytes that this program does not understand.
var ErrRendered = errors.New("what was rendered before has a form that this program does not know")

// Bytes returns the bytes to store. Without an address that is the body itself.
func (r Rendered) Bytes() []byte {
	if r.Address == "" {
		return r.Body
	}
	out := append(make([]byte, 0, len(renderedMark)+len(r.Address)+len(receivedMark)+len(r.Body)), renderedMark...)
	out = append(out, r.Address...)
	if r.Body == nil {
		return append(out, receivedMark...)
	}
	return append(append(out, bodyMark...), r.Body...)
}

// ReadRendered reads stored bytes; nil means that nothing was stored. The returned body is a part of
// stored.
func ReadRendered(stored []byte) (Rendered, error) {
	rest, found := bytes.CutPrefix(stored, []byte(renderedMark))
	if !found {
		return Rendered{Body: stored}, nil
	}
	if address, found := bytes.CutSuffix(rest, []byte(receivedMark)); found && !bytes.Contains(address, []byte("\n")) {
		return Rendered{Address: string(address)}, nil
	}
	address, body, found := bytes.Cut(rest, []byte(bodyMark))
	if !found || len(address) == 0 || bytes.Contains(address, []byte("\n")) {
		return Rendered{}, ErrRendered
	}
	return Rendered{Address: string(address), Body: body}, nil
}
