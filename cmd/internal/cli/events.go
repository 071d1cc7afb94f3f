package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) eventsCommand() *cobra.Command {
	list := newList(s, &control.ListEvents, &eventColumns, &cobra.Command{Short: "List events, newest first"})
	list.on.settings = (*shell).optionalConfig // it declares the labels
	restrict(list.Command, "state", append(control.EffectStates(), control.Admissions()...))
	list.check = func([]string) error {
		if _, err := inbox.ParseLabel(list.request.Label); strings.Contains(list.request.Label, "=") && err != nil {
			return usagef("--label %q: %v", clean(list.request.Label), err)
		}
		return nil
	}
	var body bool
	show := &cobra.Command{
		Use: "show <id | source/event-id>", Short: "Show one event with its effects", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := control.EventReference{Ref: args[0]}
			if body {
				return content(s, cmd, &control.ReadEventBody, ref)
			}
			return answer(s, cmd, onDatabase{}, &control.ShowEvent, ref, s.showEvent)
		},
	}
	show.Flags().BoolVar(&body, "body", false, "write the exact body, and nothing else")
	return group("events", "List, show or follow recorded events", list.Command, show, s.eventsTailCommand())
}

// content carries out an operation that returns content, and writes it and nothing else.
func content[Request any](s *shell, cmd *cobra.Command, operation *control.Operation[Request, control.Content], request Request) error {
	return s.control(cmd.Context(), "", func(caller control.Caller) error {
		return s.writeContent(control.Call(cmd.Context(), caller, operation, request))
	})
}

// writeContent writes exactly the bytes that were received.
func (s *shell) writeContent(content control.Content, err error) error {
	if err != nil {
		return err
	}
	_, err = s.out.Write(content.Bytes)
	return err
}

var eventColumns = columns[read.EventRow]{
	header: []string{"RECEIVED", "SOURCE", "TYPE", "EVENT ID", "DELIVERIES", "EFFECTS", "ID"},
	spare:  []string{"DELIVERIES"}, ids: []string{"EVENT ID", "ID"}, whole: []string{"RECEIVED"},
	cells: func(row *read.EventRow) []any {
		effects := row.EffectStates.String()
		if row.MoreEffects {
			effects += ", and more"
		}
		if row.Admission != "ok" {
			effects = row.Admission
		}
		return []any{row.ReceivedAt, row.Source, row.Type, row.EventID, row.Deliveries, effects, row.ID}
	},
	entry: func(row *read.EventRow) listEntry {
		return listEntry{IDs: map[string]string{kindEvent: row.ID.String()}, Name: row.Source + "/" + row.EventID}
	},
}

func (s *shell) showEvent(e *read.EventDetail) error {
	kept := "kept"
	switch {
	case e.Erased():
		kept = "erased"
	case !e.BodyKept && e.BodyArchived:
		kept = "archived"
	case !e.BodyKept:
		kept = "pruned"
	}
	conflicts := ""
	if e.Conflicts > 0 {
		conflicts = fmt.Sprintf("%d, last %s", e.Conflicts, timeOrEmpty(e.ConflictAt))
		if !e.PayloadHidden {
			conflicts += ", in " + strings.Join(e.ConflictPaths, ", ")
		}
		if e.ConflictsKept > 0 {
			conflicts += fmt.Sprintf("; %s kept: `oncegate conflicts list --event %s`", plural(e.ConflictsKept, "payload", "payloads"), e.ID)
		}
	}
	pairs := []pair{
		{"event", e.ID.String()},
		{"key", e.Source + "/" + e.EventID},
		{"provider", e.Provider},
		{"tenant", e.Tenant},
		{"type", e.Type},
		{"received", clock(e.ReceivedAt)},
		{"occurred", timeOrEmpty(e.OccurredAt)},
		{"admission", e.Admission},
		{"why", admissionWhy(e)},
		{"deliveries", fmt.Sprint(e.Deliveries)},
		{"last", timeOrEmpty(e.LastDeliveryAt)},
		{"conflicts", conflicts},
		{"replay", onlyIf(e.SuspectedReplay, "suspected: the same body was recorded under another id")},
		{"shadow", onlyIf(e.Shadow, "recorded in shadow mode: its effects are evaluated and not carried out")},
		{"class", e.Class},
		{"trace", e.TraceID},
		{"body", bodyText(e.BodyLength, kept, e.BodySHA256, e.PayloadHidden)},
		{"labels", labelTexts(e.Labels)},
	}
	for i := range e.Sequence {
		pairs = append(pairs, pair{"sequence", placeText(&e.Sequence[i])})
	}
	page(s.out, pairs)
	s.sayHidden(e.PayloadHidden)
	if len(e.Effects) == 0 {
		return nil
	}
	fmt.Fprintln(s.out)
	effectsOfEvent.table(s, e.Effects).write(s.out, s.width())
	if e.EffectsOmitted > 0 {
		fmt.Fprintf(s.err, "oncegate: %d more: `oncegate effects list --source %s --event-id '%s'` lists all\n", e.EffectsOmitted, clean(e.Source), clean(e.EventID))
	}
	return nil
}

// admissionWhy returns the reason of an event's admission.
func admissionWhy(e *read.EventDetail) string {
	switch {
	case e.Buffered():
		return "its delivery was acknowledged when it went to the buffer, and recorded afterwards"
	case e.Reconciled():
		return "it was read from the sender's list by `oncegate reconcile`, not delivered"
	}
	return e.AdmissionDetail
}
