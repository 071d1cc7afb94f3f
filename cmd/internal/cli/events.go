package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) eventsCommand() *cobra.Command {
	var f listFlags
	var labelText string
	states := append(control.EffectStates(), control.Admissions()...)
	list := &cobra.Command{
		Use: "list", Short: "List events, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, err := f.parse(states)
			if err != nil {
				return err
			}
			until, err := f.parseUntil(since)
			if err != nil {
				return err
			}
			if labelText != "" {
				if _, err := inbox.ParseLabel(labelText); err != nil {
					return usagef("--label %q: %v", clean(labelText), err)
				}
			}
			r := control.ListEventsRequest{
				TenantFilter: control.TenantFilter{Tenant: f.tenant}, Source: f.source, Type: f.kind, State: f.state, Route: f.route, Label: labelText, Since: since, Until: until,
			}
			return listPages(s, cmd, &f.pageFlags, func(ctx context.Context, caller control.Caller, p control.PageRequest) (read.Page[read.EventRow], error) {
				r.PageRequest = p
				return control.Call(ctx, caller, &control.ListEvents, r)
			}, s.eventTable, eventEntry)
		},
	}
	f.add(list, strings.Join(states, ", "))
	f.addUntil(list, "received ")
	list.Flags().StringVar(&labelText, "label", "", "only events with this label of their source: `name=value`")
	var body bool
	show := &cobra.Command{
		Use: "show <id | source/event-id>", Short: "Show one event with its effects", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				ref := control.EventReference{Ref: args[0]}
				if body {
					content, err := control.Call(cmd.Context(), caller, &control.ReadEventBody, ref)
					return s.writeContent(content, err)
				}
				event, err := control.Call(cmd.Context(), caller, &control.ShowEvent, ref)
				if err != nil {
					return err
				}
				return s.showEvent(event)
			})
		},
	}
	show.Flags().BoolVar(&body, "body", false, "write the exact body, and nothing else")
	return group("events", "List, show or follow recorded events", list, show, s.eventsTailCommand())
}

// writeContent writes exactly the bytes that were received.
func (s *shell) writeContent(content control.Content, err error) error {
	if err != nil {
		return err
	}
	_, err = s.out.Write(content.Bytes)
	return err
}

func (s *shell) eventTable(rows []read.EventRow) *table {
	t := &table{
		header: []string{"RECEIVED", "SOURCE", "TYPE", "EVENT ID", "DELIVERIES", "EFFECTS", "ID"},
		spare:  []string{"DELIVERIES"}, ids: []string{"EVENT ID", "ID"}, whole: []string{"RECEIVED"},
	}
	for i := range rows {
		row := &rows[i]
		effects := row.Effects
		if row.Admission != "ok" {
			effects = row.Admission
		}
		t.add(s.tableClock(row.ReceivedAt), row.Source, row.Type, row.EventID, fmt.Sprint(row.Deliveries), effects, row.ID.String())
	}
	return t
}

func eventEntry(row *read.EventRow) listEntry {
	return listEntry{IDs: map[string]string{kindEvent: row.ID.String()}, Name: row.Source + "/" + row.EventID}
}

func (s *shell) showEvent(e *read.EventDetail) error {
	if s.output == "json" {
		e.EffectRows = emptyList(e.EffectRows)
		return s.json(e)
	}
	kept := "kept"
	switch {
	case e.Erased():
		kept = "erased"
	case !e.BodyKept:
		kept = "pruned"
	}
	conflicts, replay := "", ""
	if e.Conflicts > 0 {
		conflicts = fmt.Sprintf("%d, last %s, in %s", e.Conflicts, timeOrEmpty(e.ConflictAt), strings.Join(e.ConflictPaths, ", "))
		if e.ConflictsKept > 0 {
			conflicts += fmt.Sprintf("; %s kept: `oncegate conflicts list --event %s`", plural(e.ConflictsKept, "payload", "payloads"), e.ID)
		}
	}
	if e.SuspectedReplay {
		replay = "suspected: the same body was recorded under another id"
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
		{"why", e.AdmissionDetail},
		{"deliveries", fmt.Sprint(e.Deliveries)},
		{"last", timeOrEmpty(e.LastDeliveryAt)},
		{"conflicts", conflicts},
		{"replay", replay},
		{"class", e.Class},
		{"body", fmt.Sprintf("%d bytes, %s, sha256 %s", e.BodyLength, kept, e.BodySHA256)},
		{"labels", labelTexts(e.Labels)},
	}
	for i := range e.Sequence {
		pairs = append(pairs, pair{"sequence", placeText(&e.Sequence[i])})
	}
	page(s.out, pairs)
	if len(e.EffectRows) == 0 {
		return nil
	}
	fmt.Fprintln(s.out)
	s.effectTable(e.EffectRows, false).write(s.out, s.width())
	return nil
}
