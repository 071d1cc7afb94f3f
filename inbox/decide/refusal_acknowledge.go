package decide

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// RefusalCause is a source, a cause and a peer of refusals. Peer is empty if it is not known.
type RefusalCause struct {
	// Source is the name of the source, and Cause why its deliveries were refused, such as mismatch.
	Source string `json:"source"`
	Cause  string `json:"cause"`

	// Peer is where they came from: an IPv4 address, or the /64 network of an IPv6 address. It is empty if that is not known.
	Peer string `json:"peer,omitempty"`
}

// AcknowledgeRefusals is a decision that refusals of some causes need nothing from an operator, also those that come later.
type AcknowledgeRefusals struct {
	Causes []RefusalCause

	// Withdraw takes acknowledgements back, so that the refusals wait for an operator again.
	Withdraw bool

	// Tenant limits the decision to the sources of a tenant. It is empty for all.
	Tenant string

	// Actor and Reason go into the audit and, with an acknowledgement, into the list. Both are required.
	Actor, Reason string
}

// An acknowledgement that exists keeps who made it, when and why.
const acknowledgeRefusals = `
INSERT INTO refusal_acknowledgement (source_id, cause, peer, actor, reason)
SELECT DISTINCT s.id, a.cause, a.peer, $5, $6
FROM unnest($1::text[], $2::text[], $3::text[]) AS a (source, cause, peer)
JOIN source s ON s.name = a.source AND ($4::text = '' OR s.tenant = $4)
ORDER BY 1, 2, 3
ON CONFLICT ON CONSTRAINT refusal_acknowledgement_pkey DO NOTHING
RETURNING (SELECT s.name FROM source s WHERE s.id = source_id), cause, peer, actor, reason, at, now()`

const withdrawAcknowledgements = `
DELETE FROM refusal_acknowledgement k
USING unnest($1::text[], $2::text[], $3::text[]) AS a (source, cause, peer)
JOIN source s ON s.name = a.source AND ($4::text = '' OR s.tenant = $4)
WHERE k.source_id = s.id AND k.cause = a.cause AND k.peer = a.peer
RETURNING s.name, k.cause, k.peer, k.actor, k.reason, k.at, now()`

// Acknowledge carries the decision out, with an entry in the audit for each cause that it changes, and returns how many these are.
// Causes that are acknowledged already, or are not, stay as they are.
func (e *Decider) Acknowledge(ctx context.Context, d AcknowledgeRefusals) (changed int, err error) {
	if err := inbox.CheckExplanation(d.Actor, d.Reason); err != nil {
		return 0, fmt.Errorf("acknowledging refusals: %w", err)
	}
	sources, causes, peers := make([]string, len(d.Causes)), make([]string, len(d.Causes)), make([]string, len(d.Causes))
	for i, c := range d.Causes {
		sources[i], causes[i], peers[i] = c.Source, c.Cause, c.Peer
	}
	err = pgx.BeginFunc(ctx, e.store.Pool(), func(tx pgx.Tx) error {
		sql, args, action := acknowledgeRefusals, []any{sources, causes, peers, d.Tenant, d.Actor, d.Reason}, inbox.AuditRefusalAcknowledge
		if d.Withdraw {
			sql, args, action = withdrawAcknowledgements, args[:4], inbox.AuditRefusalWithdraw
		}
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		var (
			b             pgx.Batch
			cause         RefusalCause
			actor, reason string
			at, now       time.Time
		)
		_, err = pgx.ForEachRow(rows, []any{&cause.Source, &cause.Cause, &cause.Peer, &actor, &reason, &at, &now}, func() error {
			entry := inbox.AuditEntry{At: now, Actor: d.Actor, Action: action, Object: "source/" + cause.Source, Reason: d.Reason, After: cause}
			if d.Withdraw {
				entry.Before, entry.After = map[string]any{"acknowledged_by": actor, "acknowledged_why": reason, "acknowledged_at": at}, cause
			}
			return entry.Queue(&b)
		})
		if changed = b.Len(); err != nil || changed == 0 {
			return err
		}
		return tx.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		return 0, fmt.Errorf("acknowledging refusals: %w", err)
	}
	return changed, nil
}
