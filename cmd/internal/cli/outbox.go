package cli

import (
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
	return newList(s, &control.ListOutbox, &outboxColumns, &cobra.Command{
		Short: "List emitted events that are not admitted yet, oldest first",
		Long: "List events that were emitted from SQL and are not admitted yet, oldest first. An event is\n" +
			"normally admitted within a second. It is refused if that can never succeed, with one of these\n" +
			"reasons: source (no process knows the source; the event is relayed as soon as one does), event_id,\n" +
			"type, too_large.",
	}).Command
}

var outboxColumns = columns[read.OutboxRow]{
	header: []string{"EMITTED", "SOURCE", "EVENT ID", "TYPE", "BYTES", "REFUSED", "ID"},
	spare:  []string{"BYTES"}, ids: []string{"EVENT ID", "ID"}, whole: []string{"EMITTED", "REFUSED"},
	cells: func(row *read.OutboxRow) []any {
		return []any{row.EmittedAt, row.Source, row.EventID, row.Type, row.Bytes, row.Refusal, row.ID}
	},
	entry: func(row *read.OutboxRow) listEntry {
		return listEntry{IDs: map[string]string{kindOutbox: fmt.Sprint(row.ID)}, Name: row.Source + "/" + row.EventID}
	},
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
			return content(s, cmd, &control.ReadOutboxPayload, control.OutboxReference{ID: id})
		},
	}
}

func (s *shell) outboxDiscardCommand() *cobra.Command {
	d := newDecision(s, &control.DiscardOutbox, &cobra.Command{
		Use: "discard <id>", Short: "Remove an emitted event that can never be admitted", Args: cobra.ExactArgs(1),
		Long: "Remove an emitted event that can never be admitted. This removes its payload. To emit it again in\n" +
			"another form, write the payload first with `oncegate outbox show`. On a terminal you type the\n" +
			"decision; elsewhere the command needs --yes.",
	})
	d.check = func(args []string) (err error) {
		d.request.ID, err = outboxID(args[0])
		return err
	}
	d.warning = func() string { return fmt.Sprintf("The payload of row %d of the outbox will be gone.", d.request.ID) }
	d.failed = failedWith(control.CodeConflict, func() string {
		return fmt.Sprintf("row %d of the outbox is not refused: a relay is about to admit it, and nothing was changed", d.request.ID)
	})
	d.done = func(row *read.OutboxRow) error { return s.print("%s/%s is discarded", row.Source, row.EventID) }
	return d.Command
}
