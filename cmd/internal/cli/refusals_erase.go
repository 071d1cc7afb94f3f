package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) refusalsEraseCommand() *cobra.Command {
	d := newDecision(s, &control.EraseRefusals, &cobra.Command{
		Use: "erase --source <name> [<id>...]", Short: "Erase refused deliveries",
		Long: "Erase the refused deliveries of a source that match ids, an address, a time or a text. Give at least one\n" +
			"condition; all that you give must match. Use `oncegate erase` for the content of an event, because a\n" +
			"refused delivery belongs to none.\n\n" +
			"--containing finds a text in the notations of JSON, of forms and of URLs, and ignores case. It does not\n" +
			"find the text in another encoding. It counts the refusals that it cannot read because their sealing\n" +
			"key is missing.\n\n" +
			"This cannot be undone.",
		Example: "  oncegate refusals erase --source stripe --containing ann@example.com --reason \"ticket 4711\"",
	})
	d.check = func(args []string) error {
		if d.request.Source == "" {
			return usagef("--source is missing")
		}
		for _, arg := range args {
			id, err := inbox.ParseID(arg)
			if err != nil {
				return usagef("%q is not a refusal's id; `oncegate refusals list` shows them", clean(arg))
			}
			d.request.IDs = append(d.request.IDs, id)
		}
		r := &d.request
		if len(r.IDs) == 0 && r.Peer == "" && r.Containing == "" && r.Since.IsZero() && r.Until.IsZero() {
			return usagef("say which refusals: ids, --peer, --since, --until or --containing")
		}
		return nil
	}
	d.on.changes = true
	d.warning = func() string { return "The refusals are erased. This cannot be undone." }
	d.done = func(out *prune.ErasedRefusals) error {
		page(s.out, []pair{{"source", out.Source}, {"erased", strconv.Itoa(out.Refusals)}, {"unreadable", nonzero(out.Unreadable)}})
		if out.Unreadable > 0 {
			fmt.Fprintln(s.out, "The unreadable ones are sealed with a key that is not in the keyring. Erase them by id, --peer or --since.")
		}
		return nil
	}
	return d.Command
}
