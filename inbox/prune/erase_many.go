package prune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/seal"
)

// EraseMany is a request to erase several events.
type EraseMany struct {
	// Events are their ids.
	Events []inbox.ID

	// Within bounds the time after which no other event is begun. 0 is no bound.
	Within time.Duration

	// Actor and Reason go into the audit of each event. Both are required.
	Actor, Reason string

	// Keyring and Archive are as in [Erase].
	Keyring *seal.Keyring
	Archive *archive.Archive
}

// ErasedMany counts the results for the events.
type ErasedMany struct {
	// Erased are those that lost their content.
	Erased int `json:"erased"`

	// InFlight are those that keep their content, because an effect of theirs is not at rest, or another transaction keeps one of
	// their streams locked.
	InFlight int `json:"in_flight"`

	// Gone are those that were pruned or erased before their turn came.
	Gone int `json:"gone"`

	// Admitted are the events, as source/event-id, as which payloads that had conflicted with them were admitted. They keep their
	// content: erase each of them separately.
	Admitted []string `json:"admitted,omitempty" shows:"event_id"`
}

// Handled is how many of the events had their turn.
func (e *ErasedMany) Handled() int { return e.Erased + e.InFlight + e.Gone }

const readErasable = `
SELECT e.id, s.name, e.event_id
FROM inbox_event e JOIN source s ON s.id = e.source_id
WHERE e.id = ANY ($1::uuid[]) AND e.class <> 'erased'`

// EraseEvents erases events one after the other, each as [EraseEvent] does and with its own entries in the audit. It handles the
// first ones of Events until Within has passed, and at least one. If it fails, the events that are erased stay erased, and a
// repetition continues with the others. The archive is written again once for all of them, at the end: if it does not answer, none is
// reported as erased completely, and a repetition, or the next pass of prune, completes them.
func EraseEvents(ctx context.Context, pool *pgxpool.Pool, r EraseMany) (out ErasedMany, err error) {
	rows, err := pool.Query(ctx, readErasable, r.Events)
	if err != nil {
		return out, fmt.Errorf("reading the events to erase: %w", err)
	}
	keys := make(map[inbox.ID]Erase, len(r.Events))
	var id inbox.ID
	one := Erase{Actor: r.Actor, Reason: r.Reason, Keyring: r.Keyring, Archive: r.Archive}
	if _, err := pgx.ForEachRow(rows, []any{&id, &one.Source, &one.EventID}, func() error { keys[id] = one; return nil }); err != nil {
		return out, fmt.Errorf("reading the events to erase: %w", err)
	}
	var finish []func() error
	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.Within > 0 {
		turn, cancel = context.WithTimeout(ctx, r.Within)
		defer cancel()
	}
	for _, id := range r.Events {
		if out.Handled() > 0 && turn.Err() != nil {
			break
		}
		key, found := keys[id]
		if !found {
			out.Gone++
			continue
		}
		begun, err := key.begin(ctx, pool)
		switch {
		case errors.Is(err, inbox.ErrNotFound):
			out.Gone++
		case errors.Is(err, ErrInFlight), errors.Is(err, inbox.ErrLocked):
			out.InFlight++
		case err != nil:
			return out, fmt.Errorf("erasing %s/%s: %w", key.Source, key.EventID, err)
		default:
			out.Erased++
			finish = append(finish, func() error { return key.finish(ctx, pool, &begun) })
			for _, admitted := range begun.out.Admitted {
				out.Admitted = append(out.Admitted, key.Source+"/"+admitted)
			}
		}
	}
	// All notes, and not only those of these events: a repetition does not see the events that are erased already.
	if _, err := archiveOf(r.Archive, pool).Erase(ctx, r.Keyring, nil); err != nil {
		return out, fmt.Errorf("erasing events in the archive: %w", err)
	}
	for _, last := range finish {
		if err := last(); err != nil {
			return out, err
		}
	}
	return out, nil
}
