package effect

import (
	"bytes"
	"errors"
)

// Addresser is implemented by kinds whose effects do not all go to one address.
type Addresser interface {
	// Address makes the address of a call before its first attempt. It is stored with what is
	// rendered, and every later attempt gets it as [Call.Address]. It is empty if all calls go
	// to one address. The error is told to people and must not quote the event.
	Address(call *Call) (string, error)

	// Reaches reports whether the target, as it is configured now, still has the server of
	// an address that was made before. To another server nothing is sent: it may never
	// have seen the key, and the headers may hold another server's credentials.
	Reaches(address string) bool
}

// Rendered is what is fixed before the first attempt of an effect and is the same in all
// of them.
type Rendered struct {
	// Address is where the attempts go; empty where the target has one address for all.
	Address string

	// Body is what they send; nil sends the event's body as it was received.
	Body []byte
}

// The form of what is stored with an address: the mark, the address, a line break, then whether there is
// a body, and the body. No JSON and no message begins with the mark. Stored: never change.
const (
	renderedMark = "\x00address "
	bodyMark     = "\nbody\n"
	receivedMark = "\nreceived\n"
)

// ErrRendered is returned for stored bytes that this program does not understand.
var ErrRendered = errors.New("what was rendered before has a form that this program does not know")

// Bytes gives what is stored: the body itself where there is no address, as it was always stored.
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

// ReadRendered reads what was stored; nil is nothing. The body is a part of stored.
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
