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

func (s *shell) sessionsCommand() *cobra.Command {
	return group("sessions", "List or revoke the sessions that engines have opened for agents",
		s.sessionsListCommand(), s.sessionsRevokeCommand())
}

func (s *shell) sessionsListCommand() *cobra.Command {
	var f listFlags
	var credential, run string
	var ended bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the sessions of agents, newest first", Args: cobra.NoArgs,
		Long: "List the open sessions that engines have opened for agents, newest first. --ended adds those that have\n" +
			"expired or were revoked; prune removes a session a day after it has expired. The token of a session\n" +
			"is stored nowhere and cannot be shown.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, err := f.parse(nil)
			if err != nil {
				return err
			}
			r := control.ListAgentSessionsRequest{Source: f.source, Credential: credential, Run: run, All: f.all || ended, Since: since}
			return listPages(s, cmd, &f.pageFlags, func(ctx context.Context, caller control.Caller, p control.PageRequest) (read.Page[read.AgentSessionRow], error) {
				r.PageRequest = p
				return control.Call(ctx, caller, &control.ListAgentSessions, r)
			}, s.sessionTable, sessionEntry)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "only this source")
	flags.StringVar(&credential, "credential", "", "only sessions that this credential opened")
	flags.StringVar(&run, "run", "", "only sessions of this run")
	flags.BoolVar(&ended, "ended", false, "also those that have expired or were revoked")
	f.addSince(cmd, "opened ")
	f.pageFlags.add(cmd)
	flags.Lookup("all").Usage = "every page, one after the other, also of those that have expired or were revoked"
	return cmd
}

func (s *shell) sessionTable(rows []read.AgentSessionRow) *table {
	t := &table{
		header: []string{"OPENED", "SOURCE", "CREDENTIAL", "RUN", "OPERATIONS", "STATE", "EXPIRES", "ID"},
		spare:  []string{"OPERATIONS", "EXPIRES"}, ids: []string{"RUN", "ID"}, whole: []string{"OPENED", "STATE", "EXPIRES"},
	}
	for i := range rows {
		row := &rows[i]
		operations := "all"
		if row.Operations != nil {
			operations = strings.Join(row.Operations, ", ")
		}
		t.add(s.tableClock(row.CreatedAt), row.Source, row.Credential, row.Run, operations, row.State, s.tableClock(row.ExpiresAt), row.ID.String())
	}
	return t
}

func sessionEntry(row *read.AgentSessionRow) listEntry {
	return listEntry{IDs: map[string]string{kindSession: row.ID.String()}, Name: row.Source + " " + row.Run}
}

func (s *shell) sessionsRevokeCommand() *cobra.Command {
	var d decision
	var source, credential, run string
	cmd := &cobra.Command{
		Use: "revoke [<id>]", Short: "End sessions of agents before their time", Args: cobra.MaximumNArgs(1),
		Long: "End one session by its id, or the open sessions of a source, which --credential and --run narrow.\n" +
			"Processes notice within seconds. Calls made under a session do not change, and a later session of the\n" +
			"same run makes the same keys. On a terminal you type the decision; elsewhere the command needs --yes.",
		Example: "  oncegate sessions revoke 0199... --reason 'the agent loops'\n" +
			"  oncegate sessions revoke --source agents --credential engine --reason 'its secret leaked'",
		RunE: func(cmd *cobra.Command, args []string) error {
			var id inbox.ID
			what := "The open sessions of source " + source
			switch {
			case len(args) == 0 && source == "":
				return usagef("name a session by its id, or sessions with --source; `oncegate sessions list` shows them")
			case len(args) == 1 && source+credential+run != "":
				return usagef("an id names one session already: leave --source, --credential and --run out")
			case len(args) == 1:
				var err error
				if id, err = inbox.ParseID(args[0]); err != nil {
					return usagef("%q is not the id of a session; `oncegate sessions list` shows them", clean(args[0]))
				}
				what = "Session " + id.String()
			}
			if err := d.check(s, "why do they end before their time?"); err != nil {
				return err
			}
			if err := s.confirm(d, "revoke", func() { _, _ = fmt.Fprintf(s.err, "%s will end.\n", clean(what)) }); err != nil {
				return err
			}
			why := control.Explained{Reason: d.reason}
			return s.control(cmd.Context(), d.actor, func(caller control.Caller) (err error) {
				var out control.RevokedSessions
				if id.IsZero() {
					out, err = control.Call(cmd.Context(), caller, &control.RevokeSessions, control.RevokeSessionsRequest{Explained: why, Source: source, Credential: credential, Run: run})
				} else {
					out, err = control.Call(cmd.Context(), caller, &control.RevokeSession, control.RevokeSessionRequest{Explained: why, ID: id})
				}
				switch {
				case err != nil && problemCode(err) != control.CodeNotFound:
					return err
				case s.output == "json":
					return s.json(control.RevokedSessions{Revoked: emptyList(out.Revoked)})
				case len(out.Revoked) == 0:
					return &failure{text: "no such session is open; nothing was changed"}
				}
				fmt.Fprintln(s.out, plural(len(out.Revoked), "session is", "sessions are")+" revoked")
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&source, "source", "", "the sessions of this source")
	flags.StringVar(&credential, "credential", "", "only those that this credential opened")
	flags.StringVar(&run, "run", "", "only the sessions of this run")
	d.add(cmd)
	return cmd
}
