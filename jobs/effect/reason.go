package effect

import (
	"strings"
	"unicode/utf8"
)

// The reasons that kinds give. They are stored and are labels: never change. The
// inbox knows each; one it does not know becomes "other".
const (
	ReasonRender  = "render_failed"
	ReasonMapping = "mapping_failed"
	ReasonStopped = "stopped"

	ReasonAddress    = "address_refused"
	ReasonDNS        = "dns"
	ReasonConnect    = "connect"
	ReasonTLS        = "tls"
	ReasonTimeout    = "timeout"
	ReasonConnection = "connection_lost"
	ReasonReply      = "reply_malformed"

	ReasonInformational = "status_1xx"
	ReasonRedirect      = "status_3xx"
	ReasonStatus408     = "status_408"
	ReasonStatus409     = "status_409"
	ReasonStatus410     = "status_410"
	ReasonStatus425     = "status_425"
	ReasonStatus429     = "status_429"
	ReasonStatus4xx     = "status_4xx"
	ReasonStatus503     = "status_503"
	ReasonStatus5xx     = "status_5xx"

	ReasonMail4xx = "smtp_4xx"
	ReasonMail5xx = "smtp_5xx"

	ReasonSerialization = "sql_serialization"
	ReasonDeadlock      = "sql_deadlock"
	ReasonLockTimeout   = "sql_lock_timeout"
	ReasonSQLTimeout    = "sql_timeout"
	ReasonUnavailable   = "sql_unavailable"
	ReasonSQL           = "sql_error"

	ReasonHandler = "handler"
)

// Reasons lists all of them.
func Reasons() []string {
	return []string{
		ReasonRender, ReasonMapping, ReasonMail4xx, ReasonMail5xx, ReasonStopped, ReasonAddress, ReasonDNS, ReasonConnect, ReasonTLS, ReasonTimeout, ReasonConnection,
		ReasonReply, ReasonInformational, ReasonRedirect, ReasonStatus408, ReasonStatus409, ReasonStatus410, ReasonStatus425,
		ReasonStatus429, ReasonStatus4xx, ReasonStatus503, ReasonStatus5xx, ReasonSerialization, ReasonDeadlock,
		ReasonLockTimeout, ReasonSQLTimeout, ReasonUnavailable, ReasonSQL, ReasonHandler,
	}
}

// MaxExcerpt bounds what is kept of what a target said, in bytes.
const MaxExcerpt = 2048

// Clean makes what a target said storable: valid UTF-8 without NUL, at most n
// bytes, cut at a character.
func Clean(s string, n int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
