package listing

import (
	"net/http"
	"strconv"
	"time"
)

// limited reports whether an answer is about too many requests. GitHub answers 403 then.
func limited(header http.Header) bool {
	return header.Get("Retry-After") != "" || header.Get("X-Ratelimit-Remaining") == "0"
}

// retryAfter returns the pause that an answer asks for, or 0. RFC 9110 allows seconds or a date; GitHub
// writes the time at which its limit is reset, in seconds since 1970, in another header.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil && seconds >= 0 {
		return max(time.Duration(seconds)*time.Second, time.Millisecond)
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	if seconds, err := strconv.ParseInt(header.Get("X-Ratelimit-Reset"), 10, 64); err == nil && header.Get("X-Ratelimit-Remaining") == "0" {
		return max(time.Unix(seconds, 0).Sub(now), time.Millisecond)
	}
	return 0
}
