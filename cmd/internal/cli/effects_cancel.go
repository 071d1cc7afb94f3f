package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) cancelListCommand() *cobra.Command {
	d := newDecision(s, &control.CancelList, &cobra.Command{
		Use:   "cancel <effect>",
		Short: "Cancel a list of messages",
		Long: "Cancel a list of messages. Name the effect that became the list. Attempts that have begun end. The workers skip\n" +
			"each other message when it is due, with the reason list_cancelled. They skip the messages of a paused target when\n" +
			"it resumes.\n\n" +
			"If it was a mistake, replay the skipped messages: `oncegate replay --include-discarded`.",
		Example: "  oncegate effects cancel 0199a000-0000-7000-8000-000000000000 --reason 'wrong template'",
		Args:    cobra.ExactArgs(1),
	})
	d.check = func(args []string) (err error) {
		if d.request.ID, err = inbox.ParseID(args[0]); err != nil {
			return usagef("%q is not an effect's id; `oncegate effects show <event>` shows the effect that became the list", clean(args[0]))
		}
		return nil
	}
	d.facts = func(ctx context.Context, caller control.Caller) (show func(), err error) {
		effect, err := control.Call(ctx, caller, &control.ShowEffect, control.IDRequest{ID: d.request.ID})
		if err != nil {
			return nil, err
		}
		if effect.List == nil {
			return nil, errorf(errorcode.WrongState, "effect %s became no list; `oncegate effects show %s` shows it", d.request.ID, d.request.ID)
		}
		return func() {
			fmt.Fprintf(s.err, "%s/%s %s: %s\nMessages that are not sent yet will be skipped.\n", effect.Source, effect.EventID, effect.Route, listText(effect.List))
		}, nil
	}
	d.done = func(out *decide.CancelledList) error {
		return s.print("the list is cancelled: %s, which the workers end; `oncegate effects show %s` shows how far they are", plural(out.Open, "message is open", "messages are open"), d.request.ID)
	}
	return d.Command
}
