package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/oncegate/oncegate/inbox/replay"
)

// diffPairs returns a diff as the lines of a page: the reasons, then what was recorded and what
// would be done, then the differences.
func diffPairs(document json.RawMessage) []pair {
	if len(document) == 0 {
		return nil
	}
	d, err := replay.ReadDiff(document)
	if err != nil {
		return []pair{{"diff", "cannot be read"}}
	}
	var out []pair
	for _, why := range d.Why {
		out = append(out, pair{"why", why})
	}
	out = append(out, pair{"signature", d.Signature})
	for _, c := range d.Identity {
		out = append(out, pair{"read today", changeText(c)})
	}
	out = append(out, requestPairs("recorded", d.Recorded)...)
	out = append(out, requestPairs("today", d.Today)...)
	for _, c := range d.Changes {
		out = append(out, pair{"change", changeText(c)})
	}
	for _, c := range d.Unused {
		out = append(out, pair{"with a new key", changeText(c)})
	}
	return out
}

// requestPairs returns one side of a diff in two or three lines.
func requestPairs(side string, r *replay.DiffSide) []pair {
	if r == nil {
		return nil
	}
	to := strings.TrimSpace(strings.Join([]string{r.Target, r.Kind, r.Method, r.Address}, " "))
	if r.RouteVersion > 0 {
		to += fmt.Sprintf(", route version %d", r.RouteVersion)
	}
	became := ""
	if r.State != "" {
		became = string(r.State)
		for _, more := range []string{string(r.Reason), r.LastCode} {
			if more != "" {
				became += ", " + more
			}
		}
	}
	body := ""
	if r.Body != nil {
		body = fmt.Sprintf("%s, %s, sha256 %.12s", r.Body.From, plural(r.Body.Bytes, "byte", "bytes"), r.Body.SHA256)
	}
	return []pair{{side, to}, {side + " key", r.Key}, {side + " body", body}, {side + " outcome", became}}
}

func changeText(c replay.Change) string {
	return fmt.Sprintf("%s: %s -> %s", c.Path, cmp.Or(c.Before, "nothing"), cmp.Or(c.After, "nothing"))
}
