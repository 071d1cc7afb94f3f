package console

import (
	"strings"

	"github.com/oncegate/oncegate/inbox"
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
		{Table: tableOf(r, found, "Nobody has done anything that matches.", []string{"When", "Who", "What", "To what", "Why"}, func(a inbox.AuditRow) []cell {
			return []cell{instant(a.At), text(a.Actor), {Text: actionText(a.Action), Detail: cut(changeText(a))}, {Text: a.Object, Href: objectLink(a.Object), Code: true}, text(a.Reason)}
		})},
	}}, nil
}

// actionText says an action in words.
func actionText(action string) string { return strings.ReplaceAll(action, ".", " ") }

// changeText is what an entry changed, as it is stored.
func changeText(a inbox.AuditRow) string {
	after := string(a.After)
	if after == "null" || after == "" {
		return ""
	}
	if before := string(a.Before); before != "null" && before != "" {
		return before + " → " + after
	}
	return after
}

// objectLink leads to the page of what an entry of the audit names; empty if it has none.
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

func auditMoment(a inbox.AuditRow) moment {
	m := moment{At: a.At, Title: a.Actor + ": " + actionText(a.Action)}
	if a.Reason != "" {
		m.Detail = "Reason: " + a.Reason
	}
	return m
}
