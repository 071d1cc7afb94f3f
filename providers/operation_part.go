package providers

import "strings"

// KeyPart returns a part of an operation's key in the form that an event id contains: it escapes
// separators, as the recipe of a key does.
func KeyPart(value string) string {
	var b strings.Builder
	escapeKey(&b, value)
	return b.String()
}
