package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) auditCommand() *cobra.Command {
	var f listFlags
	var actor, action, object string
	list := &cobra.Command{
		Use: "list", Short: "List who did what and why, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, err := f.parse(nil)
			if err != nil {
				return err
			}
			r := control.ListAuditRequest{Actor: actor, Action: action, Object: object, Since: since}
			return listPages(s, cmd, &f.pageFlags, func(ctx context.Context, caller control.Caller, p control.PageRequest) (read.Page[read.AuditRow], error) {
				r.PageRequest = p
				return control.Call(ctx, caller, &control.ListAudit, r)
			}, s.auditTable, auditEntry)
		},
	}
	flags := list.Flags()
	flags.StringVar(&actor, "actor", "", "only this actor")
	flags.StringVar(&action, "action", "", "only this action, such as effect.resolve.done")
	flags.StringVar(&object, "object", "", "only this object, such as effect/<id>")
	f.addSince(list, "")
	f.pageFlags.add(list)
	return group("audit", "List what operators, probes and the gate decided", list)
}

// auditTable may omit the id of an entry, because no command takes it. It never shortens the
// object.
func (s *shell) auditTable(rows []read.AuditRow) *table {
	t := &table{
		header: []string{"AT", "ACTOR", "ACTION", "OBJECT", "REASON", "ID"},
		spare:  []string{"ID"}, ids: []string{"OBJECT"}, whole: []string{"AT", "ACTION"},
	}
	for i := range rows {
		row := &rows[i]
		t.add(s.tableClock(row.At), row.Actor, row.Action, row.Object, row.Reason, row.ID.String())
	}
	return t
}

// auditEntry returns the list entry of an audit row. Its object names the id: event/0199... is an
// event.
func auditEntry(row *read.AuditRow) listEntry {
	kind, id, _ := strings.Cut(row.Object, "/")
	return listEntry{IDs: map[string]string{kind: id}, Name: row.Action}
}
