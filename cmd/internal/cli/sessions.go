package cli

import (
	"context"
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
	list := newList(s, &control.ListAgentSessions, &sessionColumns, &cobra.Command{
		Short: "List the sessions of agents, newest first",
		Long: "List the open sessions that engines have opened for agents, newest first. --ended adds those that have\n" +
			"expired or were revoked; prune removes a session a day after it has expired. The token of a session\n" +
			"is stored nowhere and cannot be shown.",
	})
	list.allIncludes(&list.request.All, "those that have expired or were revoked")
	return list.Command
}

var sessionColumns = columns[read.AgentSessionRow]{
	header: []string{"OPENED", "SOURCE", "CREDENTIAL", "RUN", "OPERATIONS", "STATE", "EXPIRES", "ID"},
	spare:  []string{"OPERATIONS", "EXPIRES"}, ids: []string{"RUN", "ID"}, whole: []string{"OPENED", "STATE", "EXPIRES"},
	cells: func(row *read.AgentSessionRow) []any {
		operations := "all"
		if row.Operations != nil {
			operations = strings.Join(row.Operations, ", ")
		}
		return []any{row.CreatedAt, row.Source, row.Credential, row.Run, operations, row.State, row.ExpiresAt, row.ID}
	},
	entry: func(row *read.AgentSessionRow) listEntry {
		return listEntry{IDs: map[string]string{kindSession: row.ID.String()}, Name: row.Source + " " + row.Run}
	},
}

func (s *shell) sessionsRevokeCommand() *cobra.Command {
	var d decision
	var one control.RevokeSessionRequest
	var several control.RevokeSessionsRequest
	cmd := &cobra.Command{
		Use: "revoke [<id>]", Short: "End sessions of agents before their time", Args: cobra.MaximumNArgs(1),
		Long: "End one session by its id, or the open sessions of a source, which --credential and --run narrow.\n" +
			"Processes notice within seconds. Calls made under a session do not change, and a later session of the\n" +
			"same run makes the same keys. On a terminal you type the decision; elsewhere the command needs --yes.",
		Example: "  oncegate sessions revoke 0199... --reason 'the agent loops'\n" +
			"  oncegate sessions revoke --source agents --credential engine --reason 'its secret leaked'",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			what := "The open sessions of source " + several.Source
			switch {
			case len(args) == 0 && several.Source == "":
				return usagef("name a session by its id, or sessions with --source; `oncegate sessions list` shows them")
			case len(args) == 1 && several != (control.RevokeSessionsRequest{}):
				return usagef("an id names one session already: leave --source, --credential and --run out")
			case len(args) == 1:
				if one.ID, err = inbox.ParseID(args[0]); err != nil {
					return usagef("%q is not the id of a session; `oncegate sessions list` shows them", clean(args[0]))
				}
				what = "Session " + one.ID.String()
			}
			if err := d.check(s, control.RevokeSessions.Why); err != nil {
				return err
			}
			if err := s.confirm(d, control.RevokeSessions.Confirm, func() { s.warn(what + " will end.") }); err != nil {
				return err
			}
			one.Reason, several.Reason = d.reason, d.reason
			return s.control(cmd.Context(), d.actor, func(caller control.Caller) error {
				return s.revokeSessions(cmd.Context(), caller, one, several)
			})
		},
	}
	requestFlags(cmd, &several)
	d.add(cmd)
	return cmd
}

// revokeSessions ends one session, or several if one has no id.
func (s *shell) revokeSessions(ctx context.Context, caller control.Caller, one control.RevokeSessionRequest, several control.RevokeSessionsRequest) (err error) {
	var out control.RevokedSessions
	if one.ID.IsZero() {
		out, err = control.Call(ctx, caller, &control.RevokeSessions, several)
	} else {
		out, err = control.Call(ctx, caller, &control.RevokeSession, one)
	}
	switch {
	case err != nil && problemCode(err) != control.CodeNotFound:
		return err
	case s.output == "json":
		return s.json(control.RevokedSessions{Revoked: emptyList(out.Revoked)})
	case len(out.Revoked) == 0:
		return failf(operationCode(control.CodeNotFound), "no such session is open; nothing was changed")
	}
	return s.print("%s revoked", plural(len(out.Revoked), "session is", "sessions are"))
}
