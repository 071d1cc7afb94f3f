package console

import (
	"strings"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// listOperations finds a call of an operation, and shows the sessions of agents and the outbox.
func listOperations(r *request) (*page, error) {
	p := &page{Title: "Operations", Lead: "Events that your own services call and wait for, under a key of their own."}
	find := r.filterOf(
		field{Name: "source", Label: "Source", Value: r.query("source"), Required: true}, field{Name: "credential", Label: "Credential", Value: r.query("credential"), Required: true},
		field{Name: "key", Label: "Key", Value: r.query("key"), Required: true})
	find.Button = "Find"
	p.Blocks = append(p.Blocks, block{ID: "find", Title: "Find a call", Filter: find})
	if r.query("key") != "" {
		found, err := call(r, &control.ShowOperation, control.OperationReference{Source: r.query("source"), Credential: r.query("credential"), Key: r.query("key")})
		switch {
		case err == nil:
			p.Blocks = append(p.Blocks, operationBlock(found)...)
		case control.ProblemOf(err).Code == control.CodeNotFound:
			p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "warn", Text: "No call is recorded under this key."}})
		default:
			return nil, err
		}
	}
	tenant := control.TenantFilter{Tenant: r.query("tenant")}
	sessions, err := call(r, &control.ListAgentSessions, control.ListAgentSessionsRequest{PageRequest: r.pageRequest(), TenantFilter: tenant})
	if err != nil {
		return nil, err
	}
	p.Blocks = append(p.Blocks, block{ID: "sessions", Title: "Open agent sessions", Table: tableOf(r, sessions, "No session is open.", []string{"Opened", "Run", "Source", "Credential", "Until"}, sessionCells)})
	if r.may(control.Operate) && len(sessions.Data) > 0 {
		p.Blocks = append(p.Blocks, block{Forms: []form{{
			Title: "End sessions before their time", Action: "/operations/sessions/revoke", Button: "End them", Closed: true, Danger: true, Text: "What was called under them stays.",
			Fields: []field{{Name: "id", Label: "Id of one session"}, {Name: "source", Label: "or a source"}, {Name: "credential", Label: "Credential"}, {Name: "run", Label: "Run"}, reasonField(), typedField("end")},
		}}})
	}
	outbox, err := call(r, &control.ListOutbox, control.ListOutboxRequest{PageRequest: control.PageRequest{Limit: shownRows}, TenantFilter: tenant})
	if err != nil {
		return nil, err
	}
	p.Blocks = append(p.Blocks, outboxBlock(r, outbox))
	return p, nil
}

// operationBlock shows the outcome of a call.
func operationBlock(o *control.OperationOutcome) []block {
	rest := "running"
	if o.AtRest {
		rest = "at rest"
	}
	b := block{ID: "call", Title: "The call", Facts: facts(is("State", state(rest)), is("Operation", text(o.Operation)), is("Event", linked(o.EventID, to("/find", "q", o.Source+"/"+o.EventID))))}
	t := &table{Heads: []string{"Route", "State", "Why"}, Empty: "It has no effects."}
	for _, e := range o.Effects {
		t.Rows = append(t.Rows, []cell{text(e.Route), state(string(e.State)), {Text: words(string(e.Reason)), Detail: cut(e.Detail)}})
	}
	return []block{b, {Table: t}}
}

// revokeSessions ends sessions of agents.
func revokeSessions(r *request) (*page, error) {
	why, err := r.why("end")
	if err != nil {
		return nil, err
	}
	if given := strings.TrimSpace(r.PostFormValue("id")); given != "" {
		id, err := r.formID("id")
		if err != nil {
			return nil, err
		}
		if _, err := call(r, &control.RevokeSession, control.RevokeSessionRequest{Explained: why, ID: id}); err != nil {
			return nil, err
		}
		return r.seeOther("/operations", "revoked")
	}
	if _, err := call(r, &control.RevokeSessions, control.RevokeSessionsRequest{
		Explained: why, Source: strings.TrimSpace(r.PostFormValue("source")), Credential: strings.TrimSpace(r.PostFormValue("credential")), Run: strings.TrimSpace(r.PostFormValue("run")),
	}); err != nil {
		return nil, err
	}
	return r.seeOther("/operations", "revoked")
}

// sessionCells returns the cells of an agent session.
func sessionCells(s read.AgentSessionRow) []cell {
	return []cell{instant(s.CreatedAt), {Text: s.Run, Href: to("/runs", "source", s.Source, "run", s.Run), Detail: s.ID.String()}, text(s.Source), text(s.Credential), instant(s.ExpiresAt)}
}
