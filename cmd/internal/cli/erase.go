package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
)

func (s *shell) eraseCommand() *cobra.Command {
	var source, key string
	var d decision
	cmd := &cobra.Command{
		Use: "erase", Short: "Erase everything of one event but its key", Args: cobra.NoArgs,
		Long: "Erase the body of one event, what was made of it and what was answered: rendered requests, results,\n" +
			"excerpts, documents, what replays and refusals quote, payloads that conflicted with it, and the sequence\n" +
			"keys of its streams, which keep their order. Its own key stays, so that a redelivery is still a\n" +
			"duplicate, and so do the audit and the hashes. It cannot be undone, and is refused while an effect of\n" +
			"the event is not at rest. Where a delivery carried several events, the others keep their bytes.",
		Example: "  oncegate erase --source stripe --key evt_1 --reason \"ticket 4711\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if source == "" || key == "" {
				return usagef("--source and --key are required: the source's name and the provider's event id, as `oncegate events list` shows them")
			}
			if err := d.check(s, "who asked for it?"); err != nil {
				return err
			}
			keys, err := s.keyring()
			if err != nil {
				return err
			}
			pool, err := s.openToChange(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			event, err := inbox.NewLister(pool).Event(cmd.Context(), source+"/"+key)
			if err != nil {
				return err
			}
			err = s.typed(d, "erase", func() {
				page(s.err, []pair{
					{"event", event.ID.String()}, {"key", event.Source + "/" + event.EventID}, {"type", event.Type},
					{"received", s.tableClock(event.ReceivedAt)}, {"effects", event.Effects}, {"body", strconv.Itoa(event.BodyLength) + " bytes"},
				})
				fmt.Fprintln(s.err, "This cannot be undone.")
			})
			if err != nil {
				return err
			}
			out, err := inbox.EraseEvent(cmd.Context(), pool, inbox.Erase{
				Source: source, EventID: key, Actor: d.actor, Reason: d.reason, Keyring: keys,
			})
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
				fmt.Fprintln(s.out, clean("A payload that conflicted with it was admitted as "+source+"/"+id+", which keeps its content: erase it too."))
			}
			if out.NotSearched {
				fmt.Fprintln(s.out, "The id is too short to be searched for in refusals; `oncegate refusals list` shows them.")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&source, "source", "", "the source's name; required")
	cmd.Flags().StringVar(&key, "key", "", "the provider's event id; required")
	d.add(cmd)
	return cmd
}
