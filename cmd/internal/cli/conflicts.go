package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) conflictsCommand() *cobra.Command {
	return group("conflicts", "List, show, admit or dismiss payloads that came under the id of another event",
		s.conflictsListCommand(), s.conflictsShowCommand(), s.conflictsAdmitCommand(), s.conflictsDismissCommand())
}

func (s *shell) conflictsListCommand() *cobra.Command {
	return newList(s, &control.ListConflicts, &conflictColumns, &cobra.Command{
		Short: "List the payloads that conflict with an event, newest first",
		Long: "List payloads that were delivered under the id of an event that had been recorded with another\n" +
			"payload. The newest five different payloads of each event are kept for as long as the bodies of\n" +
			"their source. `oncegate events show` counts all of them.",
	}).Command
}

var conflictColumns = columns[read.ConflictRow]{
	header: []string{"FIRST SEEN", "SOURCE", "EVENT ID", "TYPE", "DELIVERIES", "ADMITTED", "DISMISSED", "DIFFERS IN", "LAST SEEN", "ID"},
	spare:  []string{"LAST SEEN", "DIFFERS IN", "DELIVERIES", "TYPE"}, ids: []string{"EVENT ID", "ID"}, whole: []string{"FIRST SEEN", "LAST SEEN"},
	cells: func(row *read.ConflictRow) []any {
		return []any{row.FirstSeenAt, row.Source, row.EventID, row.Type, row.Deliveries, row.AdmittedAs != nil, row.DismissedAt != nil, row.Paths, row.LastSeenAt, row.ID}
	},
	entry: func(row *read.ConflictRow) listEntry {
		return listEntry{IDs: map[string]string{kindConflict: row.ID.String(), kindEvent: row.Event.String()}, Name: row.Source + "/" + row.EventID}
	},
}

// conflictID parses the only argument of a command.
func conflictID(text string) (inbox.ID, error) {
	id, err := inbox.ParseID(text)
	if err != nil {
		return id, usagef("%q is not a conflict's id; `oncegate conflicts list` shows them", clean(text))
	}
	return id, nil
}

func (s *shell) conflictsShowCommand() *cobra.Command {
	var body, diff bool
	cmd := &cobra.Command{
		Use: "show <id>", Short: "Show one payload that conflicts with an event", Args: cobra.ExactArgs(1),
		Long: "Show one payload that conflicts with an event, with the JSON paths at which the two differ. --diff\n" +
			"adds the values at these paths, and --body writes the payload. Both open sealed content.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := conflictID(args[0])
			if err != nil {
				return err
			}
			if body && diff {
				return usagef("--body and --diff exclude each other")
			}
			// --body also shows the members that only a configuration declares secret.
			return s.configuredControl(cmd.Context(), func(caller control.Caller) error {
				ctx, r := cmd.Context(), control.IDRequest{ID: id}
				if body {
					content, err := control.Call(ctx, caller, &control.ReadConflictBody, r)
					return s.writeContent(content, err)
				}
				row, err := control.Call(ctx, caller, &control.ShowConflict, r)
				if err != nil {
					return err
				}
				if !diff {
					return s.showConflict(row, nil)
				}
				changes, err := control.Call(ctx, caller, &control.ListConflictChanges, r)
				switch code := problemCode(err); {
				case code == control.CodeNotFound:
					return errorf(errorcode.WrongState, "%s", clean(fmt.Sprintf("the payload of %s/%s is not kept any more, so there is nothing to compare with; --body shows the one that conflicts", row.Source, row.EventID)))
				case err != nil:
					return err
				}
				return s.showConflict(row, changes.Data)
			})
		},
	}
	cmd.Flags().BoolVar(&diff, "diff", false, "also the values at the differing paths; members whose names suggest secrets are masked")
	cmd.Flags().BoolVar(&body, "body", false, "write the exact payload, and nothing else")
	return cmd
}

func (s *shell) showConflict(c *read.ConflictRow, changes []replay.Change) error {
	if s.output == "json" {
		return s.json(struct {
			*read.ConflictRow
			Changes []replay.Change `json:"changes,omitempty"`
		}{c, changes})
	}
	admitted := ""
	if c.AdmittedAs != nil {
		admitted = timeOrEmpty(c.AdmittedAt) + ", as event " + c.AdmittedAs.String()
	}
	dismissed := ""
	if c.DismissedAt != nil {
		dismissed = timeOrEmpty(c.DismissedAt) + ", by " + c.DismissedBy
	}
	pairs := []pair{
		{"conflict", c.ID.String()},
		{"event", c.Event.String()},
		{"key", c.Source + "/" + c.EventID},
		{"type", c.Type},
		{"tenant", c.Tenant},
		{"first seen", clock(c.FirstSeenAt)},
		{"last seen", clock(c.LastSeenAt)},
		{"deliveries", fmt.Sprint(c.Deliveries)},
		{"payload", bodyText(c.Bytes, "kept", c.SHA256, c.PayloadHidden)},
		{"differs in", strings.Join(c.Paths, ", ")},
		{"admitted", admitted},
		{"dismissed", dismissed},
	}
	for _, change := range changes {
		pairs = append(pairs, pair{"change", changeText(change)})
	}
	page(s.out, pairs)
	s.sayHidden(c.PayloadHidden)
	return nil
}

func (s *shell) conflictsAdmitCommand() *cobra.Command {
	var follow bool
	var row *read.ConflictRow
	d := newDecision(s, &control.AdmitConflict, &cobra.Command{
		Use: "admit <id>", Short: "Admit the payload of a conflict as a separate event", Args: cobra.ExactArgs(1),
		Long: "Admit the payload of a conflict as a separate event, with the effects of the routes of its source. The\n" +
			"new event id is the id of the event, a ~ and the first 12 hex digits of the payload's stored hash, so\n" +
			"admitting it again changes nothing. The effects have their own keys, so the effects of the first event\n" +
			"may happen again.\n\n" +
			"On a terminal you type the decision; elsewhere the command needs --yes.",
		Example: "  oncegate conflicts admit 0199... --reason \"the sender reuses ids; this is another payment\"",
	})
	d.Command.Flags().BoolVar(&follow, "follow", false, "wait until its effects are done, and not only queued")
	d.check = func(args []string) (err error) {
		d.request.ID, err = conflictID(args[0])
		return err
	}
	d.on.settings = (*shell).servedConfig
	d.facts = func(ctx context.Context, caller control.Caller) (show func(), err error) {
		row, err = control.Call(ctx, caller, &control.ShowConflict, control.IDRequest{ID: d.request.ID})
		return func() { s.showConflictFacts(row) }, err
	}
	d.failed = func(err error) error {
		if isOverloaded(err) {
			return tryLaterf(operationCode(control.CodeUnavailable), "%v; run it again, it admits the payload once", err)
		}
		return refusedRequest(err)
	}
	d.json = true // which follows, too
	d.done = func(out *decide.AdmittedConflict) error { return s.showAdmitted(d.Command.Context(), row, out, follow) }
	return d.Command
}

// showAdmitted prints the event that was created from the payload. With follow, it waits until the effects of that event
// are done.
func (s *shell) showAdmitted(ctx context.Context, row *read.ConflictRow, out *decide.AdmittedConflict, follow bool) error {
	if s.output == "json" {
		if follow {
			if _, err := s.followEvent(ctx, out.Event); err != nil {
				return err
			}
		}
		return s.json(out)
	}
	what := fmt.Sprintf("is event %s now, with %s", out.Event, plural(out.Effects, "effect", "effects"))
	if out.Outcome == inbox.Duplicate {
		what = fmt.Sprintf("was admitted before, as event %s", out.Event)
	}
	_ = s.print("conflict %s %s: %s/%s", out.Conflict, what, row.Source, out.EventID)
	if !follow {
		return nil
	}
	event, err := s.followEvent(ctx, out.Event)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	effectsOfEvent.table(s, event.Effects).write(s.out, s.width())
	return nil
}

func (s *shell) showConflictFacts(c *read.ConflictRow) {
	page(s.err, []pair{
		{"key", c.Source + "/" + c.EventID}, {"type", c.Type}, {"last seen", s.tableClock(c.LastSeenAt)},
		{"payload", bodyText(c.Bytes, "", "", c.PayloadHidden)}, {"differs in", strings.Join(c.Paths, ", ")},
	})
	fmt.Fprintln(s.err, "Its effects happen in addition to the effects of the event that it conflicts with.")
}
