package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// AuditAction says what was done. Stored: never change.
type AuditAction string

// The actions of an operator, or of a probe in his place. Stored: never change.
const (
	// AuditResolveDone: an indeterminate effect was found to have happened.
	AuditResolveDone AuditAction = "effect.resolve.done"
	// AuditResolveResend: an indeterminate effect is sent again.
	AuditResolveResend AuditAction = "effect.resolve.resend"
	// AuditDiscard: a dead effect will not happen.
	AuditDiscard AuditAction = "effect.discard"
	// AuditListCancel: the items of a list that had not ended will not happen.
	AuditListCancel AuditAction = "list.cancel"
	// AuditMove: an effect of a route that is gone waits for another one.
	AuditMove AuditAction = "effect.move"
	// AuditDiscardEvent: an event that nothing can be done for was seen.
	AuditDiscardEvent AuditAction = "event.discard"
	// AuditReplayPlan, AuditReplayRun and AuditReplayCancel are the steps of a replay.
	AuditReplayPlan   AuditAction = "replay.plan"
	AuditReplayRun    AuditAction = "replay.run"
	AuditReplayCancel AuditAction = "replay.cancel"
	// AuditGapAbandoned: the policy abandoned missing numbers of a stream.
	AuditGapAbandoned AuditAction = "stream.gap.abandoned"
	// AuditPrune: an operator named rows that prune otherwise keeps, and prune deleted them.
	AuditPrune AuditAction = "prune.include"
	// AuditErase: everything of an event but its tombstone was erased.
	AuditErase AuditAction = "event.erase"
	// AuditEraseRefusals: refused deliveries were erased.
	AuditEraseRefusals AuditAction = "refusal.erase"
	// AuditKeyRotate: a key was added to the keyring.
	AuditKeyRotate AuditAction = "keys.rotate"
	// AuditKeyActivate: another key became the active one.
	AuditKeyActivate AuditAction = "keys.activate"
	// AuditKeyRemove: a key was taken out of the keyring.
	AuditKeyRemove AuditAction = "keys.remove"
	// AuditStreamSkip: missing numbers were abandoned, or the effect that blocked a stream was skipped.
	AuditStreamSkip AuditAction = "stream.skip"
	// AuditOrderApply and AuditOrderSkip: an effect was held for a person, because its place in its sequence is unknown
	// or taken. It runs nevertheless, or never happens.
	AuditOrderApply AuditAction = "order.apply"
	AuditOrderSkip  AuditAction = "order.skip"
	// AuditSuppressionAdd, AuditSuppressionImport and AuditSuppressionRemove: addresses were
	// suppressed, one or a file of them, or may be written to again.
	AuditSuppressionAdd    AuditAction = "suppression.add"
	AuditSuppressionImport AuditAction = "suppression.import"
	AuditSuppressionRemove AuditAction = "suppression.remove"
	// AuditStreamUnblock: the effects after a blocking effect were released. The blocking effect keeps its state.
	AuditStreamUnblock AuditAction = "stream.unblock"
	// AuditConflictAdmit: the payload of a conflict was admitted as a separate event.
	AuditConflictAdmit AuditAction = "conflict.admit"
	// AuditConflictDismiss: a conflict needs no event. It stays until it is pruned, and can still be admitted.
	AuditConflictDismiss AuditAction = "conflict.dismiss"
	// AuditRefusalAcknowledge and AuditRefusalWithdraw: refusals of one source, cause and peer were acknowledged, or wait for an
	// operator again.
	AuditRefusalAcknowledge AuditAction = "refusal.acknowledge"
	AuditRefusalWithdraw    AuditAction = "refusal.withdraw"
	// AuditRevokeSessions: sessions of agents were ended before their time.
	AuditRevokeSessions AuditAction = "session.revoke"
	// AuditDiscardOutbox: an emitted event that can never be admitted was discarded.
	AuditDiscardOutbox AuditAction = "outbox.discard"
	// AuditSourceCreate and those that follow: a source of the database was defined, changed, disabled or enabled.
	AuditSourceCreate  AuditAction = "source.create"
	AuditSourceUpdate  AuditAction = "source.update"
	AuditSourceDisable AuditAction = "source.disable"
	AuditSourceEnable  AuditAction = "source.enable"
	// AuditSourceMove: a source goes to another database, or comes from one. Each step has an entry in the database that took it.
	AuditSourceMove AuditAction = "source.move"
	// AuditPause and AuditResume: a source, a route or a target was paused, or runs again.
	AuditPause  AuditAction = "pause"
	AuditResume AuditAction = "resume"
)

// AuditEntry is one entry to write.
type AuditEntry struct {
	At            time.Time
	Actor         string
	Action        AuditAction
	Object        string
	Reason        string
	Before, After any
}

const insertAudit = `
INSERT INTO audit (id, at, actor, action, object, reason, before, after) VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8)`

// WriteAuditTx writes an entry in the transaction that makes the change.
func WriteAuditTx(ctx context.Context, tx pgx.Tx, a AuditEntry) error {
	var b pgx.Batch
	if err := a.Queue(&b); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("auditing %s: %w", a.Action, err)
	}
	return nil
}

// Queue queues the statement that inserts the entry.
func (a *AuditEntry) Queue(b *pgx.Batch) error {
	before, err := json.Marshal(a.Before)
	if err != nil {
		return fmt.Errorf("auditing %s: %w", a.Action, err)
	}
	after, err := json.Marshal(a.After)
	if err != nil {
		return fmt.Errorf("auditing %s: %w", a.Action, err)
	}
	b.Queue(insertAudit, NewID(a.At), a.At, a.Actor, a.Action, a.Object, a.Reason, before, after)
	return nil
}

// Who did something and why, as they are stored.
const (
	maxActor  = 128
	maxReason = 1024
)

// ErrUnexplained is returned for something done without saying who did it or
// why, or saying it in what cannot be stored.
var ErrUnexplained = errors.New("an actor of at most 128 bytes and a reason of at most 1024 are required, in one line of text")

// CheckExplanation returns [ErrUnexplained] unless actor and reason can be stored as one line of text each.
func CheckExplanation(actor, reason string) error {
	for text, limit := range map[string]int{actor: maxActor, reason: maxReason} {
		if strings.TrimSpace(text) == "" || len(text) > limit || strings.ToValidUTF8(text, "") != text || strings.ContainsAny(text, "\x00\r\n") {
			return ErrUnexplained
		}
	}
	return nil
}
