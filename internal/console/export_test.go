package console

// Patterns are those of all pages and of all that forms do.
func Patterns() []string {
	var out []string
	for _, r := range routes() {
		out = append(out, r.pattern)
	}
	return out
}
