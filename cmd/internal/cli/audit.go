package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) auditCommand() *cobra.Command {
	list := newList(s, &control.ListAudit, &auditColumns, &cobra.Command{Short: "List who did what and why, newest first"})
	return group("audit", "List what operators, probes and the gate decided", list.Command)
}

// auditColumns may omit the id of an entry, because no command takes it. The object is never shortened. It names the
// id: event/0199... is an event.
var auditColumns = columns[read.AuditRow]{
	header: []string{"AT", "ACTOR", "ACTION", "OBJECT", "REASON", "ID"},
	spare:  []string{"ID"}, ids: []string{"OBJECT"}, whole: []string{"AT", "ACTION"},
	cells: func(row *read.AuditRow) []any {
		return []any{row.At, row.Actor, row.Action, row.Object, row.Reason, row.ID}
	},
	entry: func(row *read.AuditRow) listEntry {
		kind, id, _ := strings.Cut(row.Object, "/")
		return listEntry{IDs: map[string]string{kind: id}, Name: row.Action}
	},
}
