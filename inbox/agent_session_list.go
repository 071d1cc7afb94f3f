package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// AgentSessionFilter narrows a list of sessions; a zero field does not.
type AgentSessionFilter struct {
	Source     string
	Credential string
	// Run is exact.
	Run string
	// Callers takes the sessions that one of these credentials opened; nil takes those of all.
	Callers []Caller
	// Open leaves out those that have expired or were revoked.
	Open bool
	// Since is the earliest opening.
	Since time.Time
	// Before is the last ID of the page before this one; zero starts at the newest.
	Before ID
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// Caller is a credential of a source of operations.
type Caller struct{ Source, Credential string }

// AgentSessionRow is one line of a list of sessions. It holds nothing of the token.
type AgentSessionRow struct {
	ID         ID         `json:"id"`
	Source     string     `json:"source"`
	Credential string     `json:"credential"`
	Run        string     `json:"run"`
	Operations []string   `json:"operations"`
	NewKeys    int        `json:"new_keys,omitempty"`
	Contract   string     `json:"contract,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  time.Time  `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	// State is open, expired or revoked.
	State string `json:"state"`
}

const listAgentSessions = `
SELECT a.id, s.name, a.credential, a.run, a.operations, a.new_keys, a.contract, a.created_at, a.expires_at, a.revoked_at,
    CASE WHEN a.revoked_at IS NOT NULL THEN 'revoked' WHEN a.expires_at <= now() THEN 'expired' ELSE 'open' END
FROM agent_session a JOIN source s ON s.id = a.source_id
WHERE ($1::text = '' OR s.name = $1) AND ($2::text = '' OR a.credential = $2) AND ($3::text = '' OR a.run = $3)
    AND (NOT $4::boolean OR a.revoked_at IS NULL AND a.expires_at > now())
    AND ($5::uuid IS NULL OR a.id >= $5) AND ($6::uuid IS NULL OR a.id < $6)
    AND ($8::text[] IS NULL OR (s.name, a.credential) IN (SELECT * FROM unnest($8::text[], $9::text[])))
ORDER BY a.id DESC
LIMIT $7`

// AgentSessions gives one page of sessions, newest first.
func (l *Lister) AgentSessions(ctx context.Context, f AgentSessionFilter) ([]AgentSessionRow, error) {
	var sources, credentials []string // nil: all
	if f.Callers != nil {
		sources, credentials = []string{}, []string{}
	}
	for _, caller := range f.Callers {
		sources, credentials = append(sources, caller.Source), append(credentials, caller.Credential)
	}
	rows, err := l.pool.Query(ctx, listAgentSessions, f.Source, f.Credential, f.Run, f.Open, firstIDSince(f.Since), f.Before, row.PageSize(f.Limit), sources, credentials)
	if err != nil {
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AgentSessionRow])
	if err != nil {
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	return out, nil
}

const showAgentSession = `
SELECT a.id, s.name, a.credential, a.run, a.operations, a.new_keys, a.contract, a.created_at, a.expires_at, a.revoked_at,
    CASE WHEN a.revoked_at IS NOT NULL THEN 'revoked' WHEN a.expires_at <= now() THEN 'expired' ELSE 'open' END
FROM agent_session a JOIN source s ON s.id = a.source_id
WHERE a.id = $1`

// AgentSession gives one session. It returns [ErrNotFound] if there is none.
func (l *Lister) AgentSession(ctx context.Context, id ID) (*AgentSessionRow, error) {
	rows, err := l.pool.Query(ctx, showAgentSession, id)
	if err != nil {
		return nil, fmt.Errorf("reading session %s: %w", id, err)
	}
	session, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[AgentSessionRow])
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", id, err)
	}
	return &session, nil
}
