package console

// Patterns are those of all pages and of all that forms do.
func Patterns() []string {
	var out []string
	for _, r := range routes() {
		out = append(out, r.pattern)
	}
	return out
}

// Remedy is what a page says about a reason, and whether it knows the reason.
func Remedy(reason, target, code string) (why, mend string, known bool) {
	found := remedyOf(reason, target, code)
	_, known = remedies[reason]
	return found.why, found.mend, known
}
