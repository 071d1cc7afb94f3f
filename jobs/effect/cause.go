package effect

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// MaxCause bounds a [Result]'s Cause, in bytes.
const MaxCause = 512

// SafeError returns the text of a connection's error in a form that may be stored and logged: in
// one line, and without the requested URL, which may contain a token.
func SafeError(err error) string {
	if asked, ok := errors.AsType[*url.Error](err); ok {
		err = asked.Err
	}
	if err == nil {
		return ""
	}
	text := err.Error()
	if strings.Contains(text, "malformed") {
		return "the reply is not HTTP" // the error quotes the reply
	}
	return pgtext.Clean(strings.Join(strings.Fields(pgtext.Clean(text, len(text)+MaxCause)), " "), MaxCause)
}

// NotReached returns the result of an attempt for which no connection was made: nothing was sent.
func NotReached(ctx context.Context, err error) Result {
	r := Result{Outcome: Retry, Reason: reasons.Connect, Cause: SafeError(err)}
	_, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, egress.ErrRefused):
		r.Reason = reasons.Address
	case isDNS:
		r.Reason = reasons.DNS
	case TimedOut(ctx, err):
		r.Reason = reasons.Timeout
	case ctx.Err() != nil:
		r.Reason = reasons.Stopped
	}
	return r
}

// TimedOut reports whether err ended an attempt because of a timeout: the deadline of ctx, or one
// of the connection.
func TimedOut(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	netErr, ok := errors.AsType[net.Error](err)
	return ok && netErr.Timeout()
}
