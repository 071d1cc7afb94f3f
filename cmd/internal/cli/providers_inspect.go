package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/providers"
)

// inspectedEvent is one event of a request.
type inspectedEvent struct {
	EventID        string     `json:"event_id"`
	Type           string     `json:"type"`
	OccurredAt     *time.Time `json:"occurred_at,omitempty"`
	SequenceKey    string     `json:"sequence_key,omitempty"`
	SequenceNumber string     `json:"sequence_number,omitempty"`
	Offset         int        `json:"offset"`
	Length         int        `json:"length"`
	Unusable       string     `json:"unusable,omitempty"`
}

func newInspectedEvents(_ *providers.Request, items []providers.Item) []inspectedEvent {
	out := make([]inspectedEvent, len(items))
	for i := range items {
		item := &items[i]
		out[i] = inspectedEvent{
			EventID: item.EventID, Type: item.Type, SequenceKey: item.SequenceKey, SequenceNumber: item.SequenceNumber,
			Offset: item.Offset, Length: item.Length, Unusable: item.Unusable,
		}
		if !item.OccurredAt.IsZero() {
			out[i].OccurredAt = &item.OccurredAt
		}
	}
	return out
}

func (s *shell) showEvents(events []inspectedEvent) {
	if len(events) == 0 {
		fmt.Fprintln(s.out, "no events: an empty batch")
		return
	}
	t := &table{
		header: []string{"#", "EVENT ID", "TYPE", "OCCURRED", "SEQUENCE KEY", "NUMBER", "BYTES", "UNUSABLE"},
		spare:  []string{"BYTES", "NUMBER", "SEQUENCE KEY"}, whole: []string{"EVENT ID"},
	}
	for i, e := range events {
		t.add(fmt.Sprint(i+1), e.EventID, e.Type, timeOrEmpty(e.OccurredAt), e.SequenceKey, e.SequenceNumber,
			fmt.Sprintf("%d-%d", e.Offset, e.Offset+e.Length), e.Unusable)
	}
	t.write(s.out, s.width())
}

func (s *shell) providersInspectCommand() *cobra.Command {
	var f captureFlags
	cmd := &cobra.Command{
		Use:   "inspect <name>",
		Short: "Show what would be extracted from a captured request, without verifying it",
		Long: "Show what would be extracted from a captured request: event ids, types, times, sequence, and how a\n" +
			"batch is split. Nothing is verified: the request may come from anybody.",
		Example: "  oncegate providers inspect stripe --request captured.http\n" +
			"  oncegate providers inspect github --request captured.json --output json",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, _, err := s.provider(args[0])
			if err != nil {
				return err
			}
			req, err := s.captured(&f)
			if err != nil {
				return err
			}
			found := p.Inspect(req)
			events := newInspectedEvents(req, found.Items)
			if s.output == "json" {
				return s.json(struct {
					Provider   string           `json:"provider"`
					Verified   bool             `json:"verified"`
					Handshake  string           `json:"handshake,omitempty"`
					IDUnsigned bool             `json:"id_unsigned"`
					Events     []inspectedEvent `json:"events"`
				}{p.Name(), false, found.Handshake, p.IDUnsigned(), events})
			}
			if found.Handshake != "" {
				fmt.Fprintf(s.out, "not verified; a handshake of %s: %s\n", p.Name(), clean(found.Handshake))
				return nil
			}
			fmt.Fprintf(s.out, "not verified; as a delivery of %s it would carry %s:\n", p.Name(), count(len(events), "event"))
			s.showEvents(events)
			return nil
		},
	}
	f.add(cmd)
	return cmd
}
