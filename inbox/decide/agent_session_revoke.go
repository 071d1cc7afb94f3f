package decide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// RevokeAgentSessions says which open sessions end. Actor and Reason are required, and so is ID or
// Source.
type RevokeAgentSessions struct {
	// ID is one session; zero is all that the other fields name.
	ID inbox.ID

	// Source, with Credential and Run if they are given, names sessions by what they are of.
	Source, Credential, Run string

	// Credentials, if it is not nil, limits them to sessions that one of these opened.
	Credentials []string

	Actor, Reason string
}

// ErrNoSessions is returned by [RevokeAgentSessions] where nothing says which sessions it means.
var ErrNoSessions = errors.New("name a session by its id, or sessions by their source")

// The statement updates the sessions of one source at most. It does not block callers that open
// more sessions meanwhile.
const revokeAgentSessions = `
UPDATE agent_session a SET revoked_at = now()
FROM source s
WHERE s.id = a.source_id AND a.revoked_at IS NULL AND a.expires_at > now()
    AND ($1::uuid IS NULL OR a.id = $1) AND ($2::text = '' OR s.name = $2)
    AND ($3::text = '' OR a.credential = $3) AND ($4::text = '' OR a.run = $4)
    AND ($5::text[] IS NULL OR a.credential = ANY ($5))
RETURNING a.id`

// Revoke ends the sessions and returns their ids. Processes notice within seconds. Finding no open
// session is not an error, because the sessions have already ended.
func (r RevokeAgentSessions) Revoke(ctx context.Context, pool *pgxpool.Pool) (revoked []inbox.ID, err error) {
	if r.ID.IsZero() && r.Source == "" {
		return nil, ErrNoSessions
	}
	if err := inbox.CheckExplanation(r.Actor, r.Reason); err != nil {
		return nil, fmt.Errorf("revoking sessions: %w", err)
	}
	object := "source/" + r.Source
	if !r.ID.IsZero() {
		object = "session/" + r.ID.String()
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, revokeAgentSessions, r.ID, r.Source, r.Credential, r.Run, r.Credentials)
		if err != nil {
			return err
		}
		if revoked, err = pgx.CollectRows(rows, pgx.RowTo[inbox.ID]); err != nil || len(revoked) == 0 {
			return err
		}
		var now time.Time
		if err := tx.QueryRow(ctx, row.ReadClock).Scan(&now); err != nil {
			return err
		}
		return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
			At: now, Actor: r.Actor, Action: inbox.AuditRevokeSessions, Object: object, Reason: r.Reason,
			Before: map[string]string{"source": r.Source, "credential": r.Credential, "run": r.Run}, After: map[string]int{"sessions": len(revoked)},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("revoking sessions: %w", err)
	}
	return revoked, nil
}
