package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// AgentSessionFilter narrows a list of sessions; a zero field does not.
type AgentSessionFilter struct {
	Source     string `json:"source,omitempty"`
	Credential string `json:"credential,omitempty"`
	// Run is exact.
	Run string `json:"run,omitempty"`
	// Callers narrows the list to sessions that one of these credentials opened; nil does not
	// narrow it.
	Callers []Caller `json:"callers,omitempty"`
	// Open leaves out those that have expired or were revoked.
	Open bool `json:"open,omitempty"`
	// Since is the earliest opening.
	Since time.Time `json:"-"`
	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string `json:"-"`
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int `json:"-"`
}

// Caller is a credential of a source of operations.
type Caller struct{ Source, Credential string }

// AgentSessionRow is one line of a list of sessions. It contains nothing of the token.
type AgentSessionRow struct {
	ID         inbox.ID   `json:"id"`
	Source     string     `json:"source"`
	Credential string     `json:"credential"`
	Run        string     `json:"run"`
	Operations []string   `json:"operations" nullable:"true"`
	NewKeys    int        `json:"new_keys,omitempty"`
	Contract   string     `json:"contract,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  time.Time  `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	// State is open, expired or revoked.
	State string `json:"state"`
}

const selectAgentSessions = `
SELECT a.id, s.name, a.credential, a.run, a.operations, a.new_keys, a.contract, a.created_at, a.expires_at, a.revoked_at,
    CASE WHEN a.revoked_at IS NOT NULL THEN 'revoked' WHEN a.expires_at <= now() THEN 'expired' ELSE 'open' END
FROM (SELECT a.* FROM agent_session a`

const joinAgentSessions = ` ORDER BY a.id DESC LIMIT ?) a
JOIN source s ON s.id = a.source_id
ORDER BY a.id DESC`

// AgentSessions returns one page of sessions, newest first. It returns [ErrCursor] for a cursor
// of another list or filter.
func (l *Lister) AgentSessions(ctx context.Context, f AgentSessionFilter) (page Page[AgentSessionRow], err error) {
	w := listWalk[AgentSessionRow, inbox.ID]{cursor: newListCursor[inbox.ID]("sessions", f), limit: f.Limit, place: func(r *AgentSessionRow) inbox.ID { return r.ID }}
	if w.from, err = w.cursor.begin(f.Cursor); err != nil {
		return page, fmt.Errorf("listing sessions: %w", err)
	}
	since := idSince(f.Since)
	var narrow row.Predicates
	narrow.AddIf(f.Source != "", `a.source_id = (SELECT s.id FROM source s WHERE s.name = ?)`, f.Source)
	narrow.AddIf(f.Credential != "", `a.credential = ?`, f.Credential)
	narrow.AddIf(f.Run != "", `a.run = ?`, f.Run)
	if f.Callers != nil {
		sources, credentials := []string{}, []string{}
		for _, caller := range f.Callers {
			sources, credentials = append(sources, caller.Source), append(credentials, caller.Credential)
		}
		narrow.Add(`((SELECT s.name FROM source s WHERE s.id = a.source_id), a.credential) IN (SELECT * FROM unnest(?::text[], ?::text[]))`, sources, credentials)
	}
	narrow.AddIf(f.Open, `a.revoked_at IS NULL AND a.expires_at > now()`)
	narrow.AddIf(l.tenant != "", `(SELECT s.tenant FROM source s WHERE s.id = a.source_id) = ?`, l.tenant)
	between := func(first, before inbox.ID) (p row.Predicates) {
		p.AddIf(!first.IsZero(), `a.id >= ?`, first)
		p.AddIf(!before.IsZero(), `a.id < ?`, before)
		return p
	}
	w.read = func(ctx context.Context, from, to inbox.ID, limit int) ([]AgentSessionRow, error) {
		var s row.Statement
		s.Add(selectAgentSessions).Where(append(between(later(since, to), from), narrow...)).Add(joinAgentSessions, limit)
		return collect(ctx, l, &s, pgx.RowToStructByPos[AgentSessionRow])
	}
	if len(narrow) > 0 {
		w.edge = func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
			var s row.Statement
			s.Add(`SELECT a.id FROM agent_session a`).Where(between(since, from)).Add(` ORDER BY a.id DESC OFFSET ? - 1 LIMIT 1`, rows)
			return l.edge(ctx, &s)
		}
	}
	if page, err = w.page(ctx, l.search()); err != nil {
		return page, fmt.Errorf("listing sessions: %w", err)
	}
	return page, nil
}

const showAgentSession = `
SELECT a.id, s.name, a.credential, a.run, a.operations, a.new_keys, a.contract, a.created_at, a.expires_at, a.revoked_at,
    CASE WHEN a.revoked_at IS NOT NULL THEN 'revoked' WHEN a.expires_at <= now() THEN 'expired' ELSE 'open' END
FROM agent_session a JOIN source s ON s.id = a.source_id
WHERE a.id = $1`

// AgentSession returns one session, or [inbox.ErrNotFound].
func (l *Lister) AgentSession(ctx context.Context, id inbox.ID) (*AgentSessionRow, error) {
	rows, err := l.pool.Query(ctx, showAgentSession, id)
	if err != nil {
		return nil, fmt.Errorf("reading session %s: %w", id, err)
	}
	session, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[AgentSessionRow])
	if errors.Is(err, pgx.ErrNoRows) {
		err = inbox.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", id, err)
	}
	return &session, nil
}
