package providers

import "regexp"

// sessionToken matches an agent session's token: a prefix that secret scanners can recognise, and
// 256 random bits in base64url.
var sessionToken = regexp.MustCompile(`^ogs_[A-Za-z0-9_-]{43}$`)

// SessionTokenOf returns the token for 32 random bytes in base64url.
func SessionTokenOf(random string) string { return "ogs_" + random }

// IsSessionToken reports whether a bearer token has the form of an agent session's token. Look up
// only such tokens among the sessions.
func IsSessionToken(token string) bool { return sessionToken.MatchString(token) }
