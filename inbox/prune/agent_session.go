package prune

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// agentSessionRetention is how long the session of an agent is kept after it has expired. Until then
// a caller that still uses its token gets the answer that it has expired, and not only that it is
// unknown.
const agentSessionRetention = 24 * time.Hour

// No row refers to a session: its calls have separate keys, which say nothing of it. The sessions
// that expired first are deleted first, whether they were revoked or not.
const deleteAgentSessions = `
WITH due AS MATERIALIZED (
    SELECT a.id FROM agent_session a WHERE a.expires_at < $1::timestamptz ORDER BY a.expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM agent_session a USING due WHERE a.id = due.id`

const countAgentSessions = `SELECT count(*) FROM agent_session WHERE expires_at < $1::timestamptz`

func (s *pass) agentSessions(ctx context.Context) error {
	return s.drain(ctx, "agent_session", deleteAgentSessions, s.retention.now.Add(-agentSessionRetention))
}

func (s *pass) countAgentSessions(ctx context.Context, tx pgx.Tx) (n int64, err error) {
	err = tx.QueryRow(ctx, countAgentSessions, s.retention.now.Add(-agentSessionRetention)).Scan(&n)
	return n, err
}
