package providers

import "strings"

// KeyPart gives a part of an operation's key as it stands in an event id: what separates parts is escaped in
// it, as the recipe of a key does it.
func KeyPart(value string) string {
	var b strings.Builder
	escapeKey(&b, value)
	return b.String()
}
