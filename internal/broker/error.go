package broker

import (
	"errors"
	"fmt"
)

// Errors that an [Error] may wrap.
var (
	// ErrNoPlace means that no topic, stream or queue of the broker takes the message.
	ErrNoPlace = errors.New("the broker has no place for the message")
	// ErrTooLarge means that the message is larger than the broker's limit.
	ErrTooLarge = errors.New("the message is larger than the broker takes")
	// ErrRefused means that the broker refused the message or the connection: a missing right, a wrong password, or no room.
	ErrRefused = errors.New("the broker refused it")
	// ErrLost means that the connection ended before the broker acknowledged the message.
	ErrLost = errors.New("the connection ended before the broker acknowledged the message")
	// ErrUnreachable means that no connection was made.
	ErrUnreachable = errors.New("no connection to the broker")
)

// Error is why a message was not acknowledged.
type Error struct {
	// Err wraps one of the errors of this package, or is the end of the context. Its text contains no password and no
	// content.
	Err error

	// Uncertain means that the broker may have the message. Otherwise it certainly does not.
	Uncertain bool

	// Code is the broker's own name or number of the error. It is empty if the broker said nothing.
	Code string
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// tooLarge returns the error for a message over a limit in bytes.
func tooLarge(size int, limit int64, remedy string) error {
	return fmt.Errorf("%w: it has %d bytes, the limit is %d%s", ErrTooLarge, size, limit, remedy)
}

// unreachable returns the error for a connection that was not made. cause may be nil.
func unreachable(cause error) error {
	if cause == nil {
		return &Error{Err: ErrUnreachable}
	}
	return &Error{Err: fmt.Errorf("%w: %w", ErrUnreachable, cause)}
}

// ended returns the error for a message that was not acknowledged when ctx ended.
func ended(cause error, uncertain bool) *Error { return &Error{Err: cause, Uncertain: uncertain} }
