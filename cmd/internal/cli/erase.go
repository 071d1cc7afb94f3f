package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) eraseCommand() *cobra.Command {
	var source, key string
	var event *read.EventDetail
	d := newDecision(s, &control.EraseEvent, &cobra.Command{
		Use: "erase", Short: "Erase the content of events and keep their keys", Args: cobra.NoArgs,
		Long: "Erase the content of one event, or of all events with a label: its body, rendered requests, results, excerpts and documents, what\n" +
			"replays and refusals quote, payloads that conflicted with it, and the sequence keys of its\n" +
			"streams, which keep their order. The event's own key, the audit and the hashes stay, so a\n" +
			"redelivery is still a duplicate. If a delivery carried several events, the others keep their\n" +
			"content.\n\n" +
			"With --label, --dry-run shows which events have the label, and a digest of them. With --digest the command\n" +
			"erases exactly these, and nothing if others have the label by then. If it is interrupted, run it again.\n\n" +
			"This cannot be undone. An event keeps its content while one of its effects is not at rest.",
		Example: "  oncegate erase --source stripe --key evt_1 --reason \"ticket 4711\"\n" +
			"  oncegate erase --label customer=42 --dry-run\n" +
			"  oncegate erase --label customer=42 --digest 0f3a9c21 --reason \"ticket 4711\"",
	})
	var labelled eraseLabelFlags
	labelled.add(d.Command)
	one := d.Command.RunE
	d.Command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := labelled.check(key); err != nil {
			return err
		}
		if labelled.label != "" {
			return s.eraseLabel(cmd.Context(), labelled, source, d.decision)
		}
		return one(cmd, args)
	}
	d.Command.Flags().StringVar(&source, "source", "", "the source's name; required with --key")
	d.Command.Flags().StringVar(&key, "key", "", "the provider's event id")
	d.check = func([]string) error {
		if source == "" || key == "" {
			return usagef("--source and --key are required: the source's name and the provider's event id, as `oncegate events list` shows them; or --label")
		}
		return nil
	}
	d.on.changes = true
	d.facts = func(ctx context.Context, caller control.Caller) (show func(), err error) {
		if event, err = control.Call(ctx, caller, &control.ShowEvent, control.EventReference{Ref: source + "/" + key}); err != nil {
			return nil, err
		}
		d.request.Ref = event.ID.String()
		return func() {
			page(s.err, []pair{
				{"event", event.ID.String()}, {"key", event.Source + "/" + event.EventID}, {"type", event.Type},
				{"received", s.tableClock(event.ReceivedAt)}, {"effects", event.EffectStates.String()}, {"body", strconv.Itoa(event.BodyLength) + " bytes"},
			})
			s.warn("This cannot be undone.")
		}, nil
	}
	d.done = func(out *prune.Erased) error { return s.showErased(event, out) }
	return d.Command
}

// showErased says what was erased of an event.
func (s *shell) showErased(event *read.EventDetail, out *prune.Erased) error {
	body := "was gone already"
	switch {
	case out.Unopened:
		body = "sealed with a key that is not in the keyring; not blanked"
	case out.Shared:
		body = "blanked in its delivery, whose other events keep theirs"
	case out.Body:
		body = "erased with its delivery"
	case out.Archived > 0:
		body = "erased in the archive"
	}
	page(s.out, []pair{
		{"event", out.Event.String()}, {"body", body}, {"other events", nonzero(out.Others)},
		{"effects", nonzero(out.Effects)}, {"attempts", nonzero(out.Attempts)}, {"duplicates", nonzero(out.Duplicates)},
		{"documents", nonzero(out.Results)}, {"replay diffs", nonzero(out.Diffs)}, {"refusals", nonzero(out.Refusals)}, {"conflicts", nonzero(out.Conflicts)},
		{"sequence keys", nonzero(out.Streams)}, {"in the archive", nonzero(out.Archived)},
		{"unreadable refusals", nonzero(out.Unreadable)},
	})
	if out.Unopened {
		fmt.Fprintln(s.out, "Its delivery has other events and cannot be read here, so these bytes stay in it, sealed and out of the\n"+
			"event's reach. Erase it again where the key is in the keyring, or erase the delivery's other events too.")
	}
	for _, id := range out.Admitted {
		_ = s.print("A payload that conflicted with it was admitted as %s/%s, which keeps its content: erase it too.", event.Source, id)
	}
	if out.NotSearched {
		fmt.Fprintln(s.out, "The id is too short to be searched for in refusals; `oncegate refusals list` shows them.")
	}
	return nil
}
