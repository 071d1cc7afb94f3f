package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) outboxCommand() *cobra.Command {
	return group("outbox", "List, show or discard events that were emitted from SQL and are not admitted",
		s.outboxListCommand(), s.outboxShowCommand(), s.outboxDiscardCommand())
}

func (s *shell) outboxListCommand() *cobra.Command {
	var f listFlags
	var refused bool
	cmd := &cobra.Command{
		Use: "list", Short: "List emitted events that are not admitted yet, oldest first", Args: cobra.NoArgs,
		Long: "List events that were emitted from SQL and are not admitted yet, oldest first. An event is\n" +
			"normally admitted within a second. It is refused if that can never succeed, with one of these\n" +
			"reasons: source (no process knows the source; the event is relayed as soon as one does), event_id,\n" +
			"type, too_large.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, err := f.parse(nil)
			if err != nil {
				return err
			}
			r := control.ListOutboxRequest{TenantFilter: control.TenantFilter{Tenant: f.tenant}, Source: f.source, Refused: refused, Since: since}
			return listPages(s, cmd, &f.pageFlags, func(ctx context.Context, caller control.Caller, p control.PageRequest) (read.Page[read.OutboxRow], error) {
				r.PageRequest = p
				return control.Call(ctx, caller, &control.ListOutbox, r)
			}, s.outboxTable, outboxEntry)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "only this source")
	f.addTenant(cmd)
	flags.BoolVar(&refused, "refused", false, "only those that can never be admitted")
	f.addSince(cmd, "emitted ")
	f.pageFlags.add(cmd)
	return cmd
}

func (s *shell) outboxTable(rows []read.OutboxRow) *table {
	t := &table{
		header: []string{"EMITTED", "SOURCE", "EVENT ID", "TYPE", "BYTES", "REFUSED", "ID"},
		spare:  []string{"BYTES"}, ids: []string{"EVENT ID", "ID"}, whole: []string{"EMITTED", "REFUSED"},
	}
	for i := range rows {
		row := &rows[i]
		t.add(s.tableClock(row.EmittedAt), row.Source, row.EventID, row.Type, fmt.Sprint(row.Bytes), row.Refusal, fmt.Sprint(row.ID))
	}
	return t
}

func outboxEntry(row *read.OutboxRow) listEntry {
	return listEntry{IDs: map[string]string{kindOutbox: fmt.Sprint(row.ID)}, Name: row.Source + "/" + row.EventID}
}

// outboxID parses the only argument of a command.
func outboxID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, usagef("%q is not an id of the outbox; `oncegate outbox list` shows them", clean(text))
	}
	return id, nil
}

func (s *shell) outboxShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <id>", Short: "Write the exact payload of one emitted event, and nothing else", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := outboxID(args[0])
			if err != nil {
				return err
			}
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				content, err := control.Call(cmd.Context(), caller, &control.ReadOutboxPayload, control.OutboxReference{ID: id})
				return s.writeContent(content, err)
			})
		},
	}
}

func (s *shell) outboxDiscardCommand() *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: "discard <id>", Short: "Remove an emitted event that can never be admitted", Args: cobra.ExactArgs(1),
		Long: "Remove an emitted event that can never be admitted. This removes its payload. To emit it again in\n" +
			"another form, write the payload first with `oncegate outbox show`. On a terminal you type the\n" +
			"decision; elsewhere the command needs --yes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := outboxID(args[0])
			if err != nil {
				return err
			}
			if err := d.check(s, "why is it not needed any more?"); err != nil {
				return err
			}
			if err := s.confirm(d, "discard", func() {
				fmt.Fprintf(s.err, "The payload of row %d of the outbox will be gone.\n", id)
			}); err != nil {
				return err
			}
			return s.control(cmd.Context(), d.actor, func(caller control.Caller) error {
				row, err := control.Call(cmd.Context(), caller, &control.DiscardOutbox, control.DiscardOutboxRequest{Explained: control.Explained{Reason: d.reason}, ID: id})
				if problemCode(err) == control.CodeConflict {
					return &failure{text: fmt.Sprintf("row %d of the outbox is not refused: a relay is about to admit it, and nothing was changed", id)}
				}
				if err != nil {
					return err
				}
				if s.output == "json" {
					return s.json(row)
				}
				fmt.Fprintln(s.out, clean(fmt.Sprintf("%s/%s is discarded", row.Source, row.EventID)))
				return nil
			})
		},
	}
	d.add(cmd)
	return cmd
}
