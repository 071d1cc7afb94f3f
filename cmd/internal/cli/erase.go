package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) eraseCommand() *cobra.Command {
	var source, key string
	var d decision
	cmd := &cobra.Command{
		Use: "erase", Short: "Erase the content of one event and keep its key", Args: cobra.NoArgs,
		Long: "Erase the content of one event: its body, rendered requests, results, excerpts and documents, what\n" +
			"replays and refusals quote, payloads that conflicted with it, and the sequence keys of its\n" +
			"streams, which keep their order. The event's own key, the audit and the hashes stay, so a\n" +
			"redelivery is still a duplicate. If a delivery carried several events, the others keep their\n" +
			"content.\n\n" +
			"This cannot be undone. It is refused while an effect of the event is not at rest.",
		Example: "  oncegate erase --source stripe --key evt_1 --reason \"ticket 4711\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if source == "" || key == "" {
				return usagef("--source and --key are required: the source's name and the provider's event id, as `oncegate events list` shows them")
			}
			if err := d.check(s, "who asked for it?"); err != nil {
				return err
			}
			return s.controlWith(cmd.Context(), onDatabase{actor: d.actor, changes: true}, func(caller control.Caller) error {
				return s.erase(cmd.Context(), caller, source+"/"+key, d)
			})
		},
	}
	cmd.Flags().StringVar(&source, "source", "", "the source's name; required")
	cmd.Flags().StringVar(&key, "key", "", "the provider's event id; required")
	d.add(cmd)
	return cmd
}

func (s *shell) erase(ctx context.Context, caller control.Caller, ref string, d decision) error {
	event, err := control.Call(ctx, caller, &control.ShowEvent, control.EventReference{Ref: ref})
	if err != nil {
		return err
	}
	err = s.confirm(d, "erase", func() {
		page(s.err, []pair{
			{"event", event.ID.String()}, {"key", event.Source + "/" + event.EventID}, {"type", event.Type},
			{"received", s.tableClock(event.ReceivedAt)}, {"effects", event.Effects}, {"body", strconv.Itoa(event.BodyLength) + " bytes"},
		})
		fmt.Fprintln(s.err, "This cannot be undone.")
	})
	if err != nil {
		return err
	}
	out, err := control.Call(ctx, caller, &control.EraseEvent, control.EraseEventRequest{Explained: control.Explained{Reason: d.reason}, Ref: event.ID.String()})
	if err != nil {
		return err
	}
	if s.output == "json" {
		return s.json(out)
	}
	body := "was gone already"
	switch {
	case out.Unopened:
		body = "sealed with a key that is not in the keyring; not blanked"
	case out.Shared:
		body = "blanked in its delivery, whose other events keep theirs"
	case out.Body:
		body = "erased with its delivery"
	}
	page(s.out, []pair{
		{"event", out.Event.String()}, {"body", body}, {"other events", nonzero(out.Others)},
		{"effects", nonzero(out.Effects)}, {"attempts", nonzero(out.Attempts)}, {"duplicates", nonzero(out.Duplicates)},
		{"documents", nonzero(out.Results)}, {"replay diffs", nonzero(out.Diffs)}, {"refusals", nonzero(out.Refusals)}, {"conflicts", nonzero(out.Conflicts)},
		{"sequence keys", nonzero(out.Streams)},
		{"unreadable refusals", nonzero(out.Unreadable)},
	})
	if out.Unopened {
		fmt.Fprintln(s.out, "Its delivery has other events and cannot be read here, so these bytes stay in it, sealed and out of the\n"+
			"event's reach. Erase it again where the key is in the keyring, or erase the delivery's other events too.")
	}
	for _, id := range out.Admitted {
		fmt.Fprintln(s.out, clean("A payload that conflicted with it was admitted as "+event.Source+"/"+id+", which keeps its content: erase it too."))
	}
	if out.NotSearched {
		fmt.Fprintln(s.out, "The id is too short to be searched for in refusals; `oncegate refusals list` shows them.")
	}
	return nil
}
