package docs

import (
	"regexp"
	"strings"
)

// words lists the closed sets of values that users see. Each is a type or a package in the code.
var words = []struct{ region, pkg, kind string }{
	{"effect-states", "inbox", "EffectState"},
	{"attempt-outcomes", "inbox", "AttemptOutcome"},
	{"triggers", "inbox", "Trigger"},
	{"reasons", "reasons", ""},
	{"error-classes", "read", "ErrorClass"},
	{"delivery-outcomes", "receiver", "outcome"},
	{"verification-causes", "providers", "Reason"},
	{"request-causes", "receiver", "reason"},
}

// wordTables returns a table for each set.
func wordTables(all []source) (map[string]string, error) {
	out := map[string]string{}
	for _, w := range words {
		constants, err := constantsOf(all, w.pkg, w.kind)
		if w.kind == "" {
			constants, err = constantsIn(all, w.pkg)
		}
		if err != nil {
			return nil, err
		}
		out[w.region] = meanings("value", constants)
	}
	headers, err := constantsNamed(all, regexp.MustCompile(`^(Header[A-Z]\w*|Default(Key|Replayed)Header)$`))
	if err != nil {
		return nil, err
	}
	out["headers"] = meanings("header", headers)
	return out, nil
}

func meanings(what string, all []constant) string {
	var rows [][]string
	for _, c := range all {
		rows = append(rows, []string{code(c.value), strings.TrimSpace(c.doc)})
	}
	return table([]string{what, "meaning"}, rows)
}
