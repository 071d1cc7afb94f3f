package decide

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
)

// AdmitConflict says which conflict to admit as a separate event. All fields but
// Keyring are required.
type AdmitConflict struct {
	Pool *pgxpool.Pool
	Gate inbox.Accepter

	// Keyring opens payloads that are sealed; nil where none is.
	Keyring *seal.Keyring

	Clock *inbox.Clock

	// Source is the conflict's source, as the gate takes it.
	Source *inbox.Source

	Conflict inbox.ID

	// Actor and Reason go into the audit.
	Actor, Reason string
}

// AdmittedConflict is the result of admitting a conflict.
type AdmittedConflict struct {
	Conflict inbox.ID `json:"conflict"`
	Event    inbox.ID `json:"event"`
	EventID  string   `json:"event_id"`

	// Outcome is Recorded, or Duplicate where it had been admitted before.
	Outcome inbox.Outcome `json:"outcome"`
	Effects int           `json:"effects"`
}

// The conflict stays locked until it is marked. A second run waits, and so does a reseal, which changes the hash of which the id of
// the admitted event is made. The last column says whether a hash of the event or of one of its payloads has a key.
const readConflict = `
SELECT e.event_id, c.source_id, c.sha256, c.type, c.occurred_at, c.sequence_key, c.sequence_number, c.id_unsigned, c.key_id, c.headers, c.body,
    c.sequence_sealed, c.sequence_key_id, coalesce(e.tenant, ''), e.body_sha256,
    octet_length(e.body_sha256) > 32 OR EXISTS (SELECT FROM conflict o WHERE o.event_id = e.id AND octet_length(o.payload_sha256) > 32)
FROM conflict c JOIN inbox_event e ON e.id = c.event_id
WHERE c.id = $1
FOR UPDATE OF c`

// The event as which the payload was admitted already, under the id with one form of its hash or with the other. It finds the
// event also if another row of the conflict was admitted.
const findAdmitted = `
SELECT event_id FROM inbox_event WHERE source_id = $1 AND event_id = ANY ($2::text[]) ORDER BY received_at, id LIMIT 1`

// A conflict that was displaced or pruned since leaves only its entry in the audit.
const markAdmitted = `
UPDATE conflict SET admitted_at = coalesce(admitted_at, now()), admitted_as = coalesce(admitted_as, $2) WHERE id = $1`

// Raising the revisions of the event's effects shows a replay that was planned before
// that another payload was admitted.
const lockConflictEffects = `
SELECT e.id
FROM effect e
JOIN conflict c ON c.event_id = e.event_id
WHERE c.id = $1
ORDER BY e.id
FOR UPDATE OF e`

// Run admits the payload through the gate, as a delivery that is received now, with the
// effects of its source's routes. The event's id is [read.AdmittedEventID], so that a second
// run, also after one that was interrupted, finds the same event. It returns
// [inbox.ErrNotFound] if the payload is no longer kept.
func (r AdmitConflict) Run(ctx context.Context) (AdmittedConflict, error) {
	out := AdmittedConflict{Conflict: r.Conflict}
	if r.Pool == nil || r.Gate == nil || r.Clock == nil || r.Source == nil {
		return out, errors.New("admitting a conflict: Pool, Gate, Clock and Source are required")
	}
	if err := inbox.CheckExplanation(r.Actor, r.Reason); err != nil {
		return out, fmt.Errorf("admitting conflict %s: %w", r.Conflict, err)
	}
	admitted := false
	err := pgx.BeginFunc(context.WithoutCancel(ctx), r.Pool, func(tx pgx.Tx) error {
		if err := r.admitTx(ctx, tx, &out); err != nil {
			return err
		}
		admitted = true
		return r.markTx(ctx, tx, &out)
	})
	switch {
	case err == nil:
		return out, nil
	case admitted:
		return out, fmt.Errorf("recording that conflict %s was admitted; admit it once more: %w", r.Conflict, err)
	}
	return out, fmt.Errorf("admitting conflict %s: %w", r.Conflict, err)
}

// admitTx passes the payload to the gate, while tx holds the lock on the conflict.
func (r *AdmitConflict) admitTx(ctx context.Context, tx pgx.Tx, out *AdmittedConflict) error {
	admission, err := r.read(ctx, tx)
	if err != nil {
		return err
	}
	receipt, err := r.Gate.Accept(ctx, admission)
	if err != nil {
		return err
	}
	item := &receipt.Items[0]
	out.Event, out.EventID, out.Outcome, out.Effects = item.ID, admission.Events[0].EventID, item.Outcome, item.Effects
	if item.Outcome == inbox.Conflict {
		return fmt.Errorf("%s/%s was recorded with another payload", r.Source.Name, out.EventID)
	}
	return nil
}

// read makes the admission of the payload. It does not check the payload's age, because
// a person has decided to admit it.
func (r *AdmitConflict) read(ctx context.Context, tx pgx.Tx) (*inbox.Admission, error) {
	var (
		source        int32
		eventID       string
		sum           []byte
		occurred      *time.Time
		sequence      place.ConflictSequence
		sealed        []byte
		sequenceKey   *int32
		keyID         *int32
		headers, body []byte
		event         inbox.NewEvent
		unsigned      bool
		tenant        string
		first         []byte // the stored hash of the event's own bytes
		keyed         bool
	)
	err := tx.QueryRow(ctx, readConflict, r.Conflict).
		Scan(&eventID, &source, &sum, &event.Type, &occurred, &sequence.Key, &sequence.Number, &unsigned, &keyID, &headers, &body, &sealed, &sequenceKey, &tenant, &first, &keyed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, inbox.ErrNotFound
	case err != nil:
		return nil, err
	case source != r.Source.ID:
		return nil, fmt.Errorf("it is not one of source %s", r.Source.Name)
	}
	if headers, body, err = place.OpenConflict(r.Keyring, r.Conflict, keyID, headers, body); err != nil {
		return nil, err
	}
	if err := sequence.Open(r.Keyring, r.Conflict, sequenceKey, sealed); err != nil {
		return nil, err
	}
	secret, err := inbox.ReadInstallationSecret(ctx, tx, r.Keyring)
	if err != nil {
		return nil, err
	}
	if event.EventID, err = r.admittedID(ctx, tx, secret, eventID, sum, body); err != nil {
		return nil, err
	}
	plain := sha256.Sum256(body)
	switch {
	case keyed && secret.Value == nil:
		// This process cannot see whether the payload was admitted already, or whether it is the event's own.
		return nil, errors.New("hashes of its event have a key, and this process has no keyring: use one that has")
	case secret.IsStoredHash(first, plain[:]):
		return nil, errors.New("it is no conflict: a process without the keyring could not see that its bytes are those of the event")
	}
	event.Length = len(body)
	event.SequenceKey, event.SequenceNumber = string(sequence.Key), string(sequence.Number)
	if occurred != nil {
		event.OccurredAt = *occurred
	}
	return &inbox.Admission{
		Source: r.Source, Body: body, Headers: headers, ReceivedAt: r.Clock.Now(), IDUnsigned: unsigned, Tenant: tenant, Events: []inbox.NewEvent{event},
	}, nil
}

// admittedID is the id of the event as which the payload is admitted: the one that it has already or, for a new one, the one made of
// the stored hash of the payload.
func (r *AdmitConflict) admittedID(ctx context.Context, tx pgx.Tx, secret inbox.InstallationSecret, eventID string, stored, body []byte) (string, error) {
	plain := sha256.Sum256(body)
	id := read.AdmittedEventID(eventID, stored)
	known := []string{id, read.AdmittedEventID(eventID, plain[:]), read.AdmittedEventID(eventID, secret.StoredHash(plain[:]))}
	err := tx.QueryRow(ctx, findAdmitted, r.Source.ID, known).Scan(&id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", err
	}
	return id, nil
}

func (r *AdmitConflict) markTx(ctx context.Context, tx pgx.Tx, out *AdmittedConflict) error {
	ctx = context.WithoutCancel(ctx) // the gate has recorded the event, so the marking must finish
	rows, err := tx.Query(ctx, lockConflictEffects, r.Conflict)
	if err != nil {
		return err
	}
	effects, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
	if err != nil {
		return err
	}
	var b pgx.Batch
	b.Queue(row.RaiseRevisions, effects)
	b.Queue(markAdmitted, r.Conflict, out.Event)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: r.Clock.Now(), Actor: r.Actor, Action: inbox.AuditConflictAdmit, Object: "conflict/" + r.Conflict.String(), Reason: r.Reason,
		Before: map[string]string{"source": r.Source.Name}, After: out,
	})
}
