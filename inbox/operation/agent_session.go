package operation

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// AgentSession is what an engine opens for an agent for one run. Calls under its token take
// their keys from the run and the step, so that the agent can never choose a key. The token
// itself is stored nowhere.
type AgentSession struct {
	ID       inbox.ID
	SourceID int32

	// Credential is the name of the credential that opened the session. It leads the keys of the
	// session's calls, and the session ends with it.
	Credential string

	// Run is the engine's id of the run. Sessions of one credential and run make the same keys.
	Run string

	// Operations are the names of those that may be called; nil is all that the credential may.
	Operations []string

	// NewKeys is how many new keys the run may take a minute; 0 sets no limit for the run. The
	// quotas of its credential apply in any case.
	NewKeys int

	// Contract is the contract version that the agent was built for; empty if it is unknown.
	Contract string

	CreatedAt, ExpiresAt time.Time

	// RevokedAt is when the session was ended before its time; nil if it was not.
	RevokedAt *time.Time
}

// Ended reports whether the session is over at that time.
func (s *AgentSession) Ended(now time.Time) bool {
	return s.RevokedAt != nil || !now.Before(s.ExpiresAt)
}

// TokenDigest returns the digest that is stored instead of a session's token. The token is 256
// random bits, so it cannot be guessed from its digest, and the digest needs no salt.
func TokenDigest(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// AgentSessions keeps the sessions of agents. Its methods may be called at the same time.
type AgentSessions struct{ pool *pgxpool.Pool }

// NewAgentSessions makes an AgentSessions that asks through pool.
func NewAgentSessions(pool *pgxpool.Pool) *AgentSessions { return &AgentSessions{pool: pool} }

// The digest of 256 random bits is never taken.
const insertAgentSession = `
INSERT INTO agent_session (id, digest, source_id, credential, run, operations, new_keys, contract, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

// Open records a session whose token has the digest.
func (a *AgentSessions) Open(ctx context.Context, digest [sha256.Size]byte, s *AgentSession) error {
	_, err := a.pool.Exec(ctx, insertAgentSession, s.ID, digest[:], s.SourceID, s.Credential, s.Run, s.Operations, s.NewKeys, s.Contract, s.CreatedAt, s.ExpiresAt)
	if err != nil {
		return fmt.Errorf("opening a session: %s", row.ErrorText(err))
	}
	return nil
}

// One probe of a unique index. A token is of one source: with another one it is unknown.
const findAgentSession = `
SELECT id, source_id, credential, run, operations, new_keys, contract, created_at, expires_at, revoked_at
FROM agent_session WHERE digest = $1 AND source_id = $2`

// Find returns the session whose token has the digest, ended or not. It returns [inbox.ErrNotFound] if
// there is no such session, or if it belongs to another source.
func (a *AgentSessions) Find(ctx context.Context, source int32, digest [sha256.Size]byte) (*AgentSession, error) {
	rows, err := a.pool.Query(ctx, findAgentSession, digest[:], source)
	if err != nil {
		return nil, fmt.Errorf("finding a session: %s", row.ErrorText(err))
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByPos[AgentSession])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, inbox.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("finding a session: %s", row.ErrorText(err))
	}
	return found, nil
}

const endAgentSession = `UPDATE agent_session SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL`

// End ends a session before its time, at the request of the holder of its token. Ending it again
// changes nothing.
func (a *AgentSessions) End(ctx context.Context, id inbox.ID) error {
	if _, err := a.pool.Exec(ctx, endAgentSession, id); err != nil {
		return fmt.Errorf("ending a session: %s", row.ErrorText(err))
	}
	return nil
}

const readOperationKey = `SELECT event_id FROM inbox_event WHERE id = $1`

// OperationKey returns the whole key of an operation by our id of its event, or [inbox.ErrNotFound].
func (a *AgentSessions) OperationKey(ctx context.Context, event inbox.ID) (string, error) {
	var key string
	err := a.pool.QueryRow(ctx, readOperationKey, event).Scan(&key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", inbox.ErrNotFound
	case err != nil:
		return "", fmt.Errorf("reading the key of an operation: %s", row.ErrorText(err))
	}
	return key, nil
}
