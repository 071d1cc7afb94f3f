package control

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/read"
)

// ListAgentSessionsRequest narrows a list of sessions of agents. A zero field does not narrow it.
type ListAgentSessionsRequest struct {
	PageRequest
	TenantFilter

	// Source is the name of a source of operations.
	Source string `json:"source,omitempty" flag:"--source only this source"`

	// Credential is the name of the credential that opened the sessions.
	Credential string `json:"credential,omitempty" flag:"--credential only sessions that this credential opened"`

	// Run is the run that the sessions are for, exact.
	Run string `json:"run,omitempty" flag:"--run only sessions of this run"`

	// All includes the sessions that have expired or were revoked.
	All bool `json:"all,omitempty" flag:"--ended also those that have expired or were revoked"`

	// Since is the earliest opening.
	Since time.Time `json:"since,omitzero" flag:"--since only those opened since"`
}

// ListAgentSessions lists sessions of agents.
var ListAgentSessions = Operation[ListAgentSessionsRequest, read.Page[read.AgentSessionRow]]{
	ID: "list_sessions", Method: "GET", Path: "/sessions", Scope: ReadMetadata,
	Summary: "List the sessions that engines have opened for agents, newest first. Their tokens are stored nowhere.",
	Do: func(ctx context.Context, s *Service, access Access, r ListAgentSessionsRequest) (page read.Page[read.AgentSessionRow], err error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return page, err
		}
		callers, err := s.callersOf(tenant)
		if err != nil {
			return page, err
		}
		return readPage(r.PageRequest, func(at read.PageRequest) (read.Page[read.AgentSessionRow], error) {
			return s.lister.AgentSessions(ctx, read.AgentSessionFilter{
				Source: r.Source, Credential: r.Credential, Run: r.Run, Callers: callers, Open: !r.All, Since: r.Since, Cursor: at.Cursor, Limit: at.Limit,
			})
		})
	},
}

// callersOf returns the credentials whose calls belong to a tenant, or nil if tenant is empty.
func (s *Service) callersOf(tenant string) ([]read.Caller, error) {
	if tenant == "" {
		return nil, nil
	}
	if s.cfg.Settings == nil {
		return nil, invalid("tenant: only the configuration says whose credentials are; name one with --config")
	}
	callers := []read.Caller{}
	for _, source := range s.cfg.Settings.Sources {
		for _, credential := range source.Credentials {
			if or(credential.Tenant, source.Tenant) == tenant {
				callers = append(callers, read.Caller{Source: source.Name, Credential: credential.Name})
			}
		}
	}
	return callers, nil
}
