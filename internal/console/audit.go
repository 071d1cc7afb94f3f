package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// listAudit shows who did what, and why.
func listAudit(r *request) (*page, error) {
	since, err := r.since("since")
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListAudit, control.ListAuditRequest{
		PageRequest: r.pageRequest(), Actor: r.query("actor"), Action: r.query("action"), Object: r.query("object"), Since: since,
	})
	if err != nil {
		return nil, err
	}
	return &page{Title: "Audit", Lead: "Who did what, and why.", Blocks: []block{
		{Filter: r.filterOf(r.textField("actor", "Actor"), r.textField("action", "Action"), r.textField("object", "Object"), r.sinceField("since", "Since"))},
		{Table: tableOf(r, found, "Nobody has done anything that matches.", []string{"When", "Who", "What", "To what", "Why"}, func(a read.AuditRow) []cell {
			return []cell{instant(a.At), text(a.Actor), {Text: actionText(a.Action), Detail: changeText(a)}, {Text: a.Object, Href: objectLink(a.Object), Code: true}, text(a.Reason)}
		})},
	}}, nil
}

// actionText returns an action in words.
func actionText(action string) string { return strings.ReplaceAll(action, ".", " ") }

// changeText returns what an entry changed.
func changeText(a read.AuditRow) string {
	before, after := membersText(a.Before), membersText(a.After)
	if before == "" || after == "" {
		return cut(before + after)
	}
	return cut(before + " → " + after)
}

// membersText formats stored JSON for people: its members by name, without empty ones.
func membersText(stored []byte) string {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(stored))
	decoder.UseNumber()
	if len(stored) == 0 || decoder.Decode(&value) != nil {
		return string(stored)
	}
	return valueText(value)
}

func valueText(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if text := valueText(value[name]); text != "" {
				parts = append(parts, valueText(words(name))+" "+text)
			}
		}
		return strings.Join(parts, " · ")
	case []any:
		var parts []string
		for _, one := range value {
			parts = append(parts, valueText(one))
		}
		return strings.Join(parts, ", ")
	}
	if digest, ok := value.(string); ok && len(digest) == 64 && !strings.ContainsFunc(digest, func(c rune) bool { return !strings.ContainsRune("0123456789abcdef", c) }) {
		return digest[:12] + "…"
	}
	return strings.ReplaceAll(fmt.Sprint(value), "\uFFFD", `\ufffd`) // U+FFFD replaces invalid text; it is shown as an escape
}

// objectLink returns the address of the page of an audit entry's object. It is empty if there is
// none.
func objectLink(object string) string {
	kind, ref, _ := strings.Cut(object, "/")
	if _, err := inbox.ParseID(ref); err != nil {
		return ""
	}
	switch kind {
	case "event", "effect", "replay", "conflict", "refusal":
		return "/" + kind + "s/" + ref
	}
	return ""
}

func auditMoment(a read.AuditRow) moment {
	m := moment{At: a.At, Title: capital(actionText(a.Action)) + ", by " + a.Actor}
	if a.Reason != "" {
		m.Detail = "Reason: " + a.Reason
	}
	return m
}
