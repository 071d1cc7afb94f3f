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
		Long: "Erase refused deliveries of a source: those with the ids, from a sender, of a time, or with a text.\n" +
			"All conditions must match, and there must be one. `oncegate erase` erases what belongs to an event; a\n" +
			"refused delivery belongs to none.\n\n" +
			"--containing finds a text as it is written in JSON, in forms and in URLs, and ignores case. It does not\n" +
			"find the text in another encoding, or in a refusal whose sealing key is missing. Those are counted.\n\n" +
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
