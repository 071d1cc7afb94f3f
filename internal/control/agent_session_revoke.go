package control

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
)

// RevokeSessionRequest names one session of an agent.
type RevokeSessionRequest struct {
	Explained `required:"reason"`

	// ID identifies the session.
	ID inbox.ID `json:"id"`
}

// RevokedSessions are the sessions that were ended before they expired.
type RevokedSessions struct {
	Revoked []inbox.ID `json:"revoked"`
}

// RevokeSession ends one session of an agent before it expires.
var RevokeSession = Operation[RevokeSessionRequest, RevokedSessions]{
	ID: "revoke_session", Method: "POST", Path: "/sessions/{id}/revoke", Scope: Operate,
	Summary: "End one session of an agent before its time. What was called under it stays.",
	Why:     "why do they end before their time?", Confirm: "revoke",
	Do: func(ctx context.Context, s *Service, access Access, r RevokeSessionRequest) (out RevokedSessions, err error) {
		session, err := s.lister.AgentSession(ctx, r.ID)
		if err != nil {
			return out, err
		}
		if access.Tenant != "" && s.credentialTenant(session.Source, session.Credential) != access.Tenant {
			return out, fmt.Errorf("session %s: %w", r.ID, inbox.ErrNotFound)
		}
		return s.revokeSessions(ctx, access, decide.RevokeAgentSessions{ID: r.ID, Reason: r.Reason})
	},
}

// RevokeSessionsRequest names the open sessions of a source.
type RevokeSessionsRequest struct {
	Explained `required:"reason"`

	// Source is the name of a source; it is required. Credential and Run narrow its sessions.
	Source     string `json:"source" flag:"--source the sessions of this source"`
	Credential string `json:"credential,omitempty" flag:"--credential only those that this credential opened"`
	Run        string `json:"run,omitempty" flag:"--run only the sessions of this run"`
}

// RevokeSessions ends the open sessions of a source before they expire.
var RevokeSessions = Operation[RevokeSessionsRequest, RevokedSessions]{
	ID: "revoke_sessions", Method: "POST", Path: "/sessions/revoke", Scope: Operate,
	Summary: "End the open sessions of a source before their time, all of them, or only one credential's or run's.",
	Why:     "why do they end before their time?", Confirm: "revoke",
	Do: func(ctx context.Context, s *Service, access Access, r RevokeSessionsRequest) (out RevokedSessions, err error) {
		if r.Source == "" {
			return out, invalid("source is missing")
		}
		revoke := decide.RevokeAgentSessions{Source: r.Source, Credential: r.Credential, Run: r.Run, Reason: r.Reason}
		if access.Tenant != "" {
			if revoke.Credentials = s.credentialsOf(r.Source, access.Tenant); len(revoke.Credentials) == 0 {
				return out, fmt.Errorf("source %s: %w", r.Source, inbox.ErrNotFound)
			}
		}
		return s.revokeSessions(ctx, access, revoke)
	},
}

func (s *Service) revokeSessions(ctx context.Context, access Access, revoke decide.RevokeAgentSessions) (RevokedSessions, error) {
	revoke.Actor = access.Actor
	revoked, err := revoke.Revoke(ctx, s.cfg.Pool)
	if revoked == nil {
		revoked = []inbox.ID{}
	}
	return RevokedSessions{Revoked: revoked}, err
}

// credentialTenant returns the tenant of a credential's calls. It is empty if the configuration does not have
// the credential.
func (s *Service) credentialTenant(source, credential string) string {
	if s.cfg.Settings == nil {
		return ""
	}
	for _, known := range s.cfg.Settings.Sources {
		if known.Name != source {
			continue
		}
		for _, c := range known.Credentials {
			if c.Name == credential {
				return or(c.Tenant, known.Tenant)
			}
		}
	}
	return ""
}

// credentialsOf returns the credentials of a source whose calls belong to the tenant.
func (s *Service) credentialsOf(source, tenant string) []string {
	var out []string
	if s.cfg.Settings == nil {
		return nil
	}
	for _, known := range s.cfg.Settings.Sources {
		if known.Name != source {
			continue
		}
		for _, c := range known.Credentials {
			if or(c.Tenant, known.Tenant) == tenant {
				out = append(out, c.Name)
			}
		}
	}
	return out
}
