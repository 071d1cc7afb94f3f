package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
)

func (s *shell) auditCommand() *cobra.Command {
	var f listFlags
	var actor, action, object string
	list := &cobra.Command{
		Use: "list", Short: "List who did what and why, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, before, err := f.parse(nil)
			if err != nil {
				return err
			}
			return showPage(s, cmd, f.limit, func(ctx context.Context, lister *inbox.Lister) ([]inbox.AuditRow, error) {
				return lister.Audit(ctx, inbox.AuditFilter{
					Actor: actor, Action: action, Object: object, Since: since, Before: before, Limit: f.limit,
				})
			}, func(rows []inbox.AuditRow) *table {
				t := &table{header: []string{"AT", "ACTOR", "ACTION", "OBJECT", "REASON", "ID"}, spare: []string{"ID"}, whole: []string{"AT", "ACTION", "OBJECT"}}
				for _, row := range rows {
					t.add(s.tableClock(row.At), row.Actor, row.Action, row.Object, row.Reason, row.ID.String())
				}
				return t
			}, func(row inbox.AuditRow) inbox.ID { return row.ID })
		},
	}
	flags := list.Flags()
	flags.StringVar(&actor, "actor", "", "only this actor")
	flags.StringVar(&action, "action", "", "only this action, such as effect.resolve.done")
	flags.StringVar(&object, "object", "", "only this object, such as effect/<id>")
	f.addSince(list, "")
	f.addPage(list)
	return group("audit", "List what operators, probes and the gate decided", list)
}
