package main

import (
	"encoding/hex"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// findMarkers returns the markers in a table's content, as text or as the bytes of a bytea.
func findMarkers(content []byte) map[string]bool {
	there := map[string]bool{}
	for _, m := range plainMarker.FindAll(content, -1) {
		there[string(m)] = true
	}
	for _, m := range bytesMarker.FindAllSubmatch(content, -1) {
		if text, err := hex.DecodeString(string(m[1])); err == nil {
			there["mark-"+string(text)] = true
		}
	}
	return there
}

// findLeaks looks in a table's content for what must not be there: the content of erased events and of the payloads
// that had conflicted with them by then, and, where everything is sealed, any content.
func findLeaks(table string, content []byte, events map[string]*event, sealed bool) (out []violation) {
	there := findMarkers(content)
	if sealed && len(there) > 0 {
		out = append(out, rig.NewViolation(leaked, "table %s holds the content of %d payloads in plain, such as %s", table, len(there), sortedKeys(there)[0]))
	}
	for _, key := range sortedKeys(events) {
		e := events[key]
		if len(e.erased) == 0 {
			continue
		}
		for i, s := range e.payloads {
			before := i == 0 || !e.admitted && !s.sentAt.IsZero() && s.sentAt.Before(e.erased[0].from)
			if before && there[s.Marker] {
				out = append(out, rig.NewViolation(leaked, "table %s holds %s of %s, which was erased at %s", table, s.Marker, key, e.erased[0].to.Format(clockFormat)))
			}
		}
	}
	return out
}
