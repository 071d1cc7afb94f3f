package cli

import (
	"fmt"
	"strings"
)

// bodyText describes a body by its length, whether it is kept, and its hash. hidden says that the access lacks read-payload:
// the length is then rounded up, and there is no hash.
func bodyText(bytes int, kept, sum string, hidden bool) string {
	length := fmt.Sprintf("%d bytes", bytes)
	if hidden {
		length = "at most " + length
	}
	parts := []string{length}
	if kept != "" {
		parts = append(parts, kept)
	}
	if sum != "" {
		parts = append(parts, "sha256 "+sum)
	}
	return strings.Join(parts, ", ")
}
