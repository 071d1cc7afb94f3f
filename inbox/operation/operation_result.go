package operation

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Outcome returns the current state of the effects of an event. It returns
// [inbox.ErrNotFound] if there is no such event.
func (o *Store) Outcome(ctx context.Context, event inbox.ID) (*EventOutcome, error) {
	found, err := outcomes(ctx, o.cfg.Pool, o.cfg.Keyring, []inbox.ID{event}, true)
	if err == nil && found[event] != nil {
		err = found[event].sealed
	}
	if err != nil {
		return nil, fmt.Errorf("reading the outcome of event %s: %w", event, err)
	}
	if found[event] == nil {
		return nil, fmt.Errorf("reading the outcome of event %s: %w", event, inbox.ErrNotFound)
	}
	return found[event], nil
}

// The first transaction that renders a result decides its bytes.
var insertResults = `
INSERT INTO operation_result (event_id, status, document, key_id, rendered_at)
SELECT a.event_id, a.status, a.document, a.key_id, now()
FROM unnest(` + resultColumns.Arrays() + `) AS a (` + resultColumns.Names() + `)
ON CONFLICT ON CONSTRAINT operation_result_pkey DO NOTHING`

// renderedResult is the database row of an operation's result.
type renderedResult struct {
	event    inbox.ID
	status   string
	document []byte
	keyID    *int32
}

var resultColumns = row.ColumnsFrom(1,
	row.UUID("event_id", func(r *renderedResult) inbox.ID { return r.event }),
	row.Text("status", func(r *renderedResult) string { return r.status }),
	row.Bytes("document", func(r *renderedResult) []byte { return r.document }),
	row.Int("key_id", func(r *renderedResult) *int32 { return r.keyID }),
)

// documents returns the stored results of the events. It first renders the results of
// events that are at rest and have none.
func (o *Store) documents(ctx context.Context, events []inbox.ID) (map[inbox.ID][]byte, error) {
	found, err := outcomes(ctx, o.cfg.Pool, o.cfg.Keyring, events, false)
	if err != nil {
		return nil, err
	}
	out := make(map[inbox.ID][]byte, len(found))
	var due []inbox.ID
	for _, id := range events {
		switch f := found[id]; {
		case f == nil:
		case f.sealed != nil:
			if len(events) == 1 {
				return nil, f.sealed
			}
		case f.document != nil:
			out[id] = f.document
		case f.Pruned:
			// Not stored: a result is made of effects, and there are none.
			if _, out[id], err = f.render(); err != nil {
				return nil, err
			}
		case f.AtRest:
			due = append(due, id)
		default:
			o.readLater(id, len(f.Effects)+f.Omitted)
		}
	}
	if len(due) == 0 {
		return out, nil
	}
	err = pgx.BeginFunc(ctx, o.cfg.Pool, func(tx pgx.Tx) error { return o.renderTx(ctx, tx, due) })
	if err != nil {
		return nil, err
	}
	if found, err = outcomes(ctx, o.cfg.Pool, o.cfg.Keyring, due, false); err != nil {
		return nil, err
	}
	for id, f := range found {
		if f.document != nil {
			out[id] = f.document
		}
	}
	return out, nil
}

func (o *Store) renderTx(ctx context.Context, tx pgx.Tx, events []inbox.ID) error {
	if _, err := tx.Exec(ctx, row.LockOperations, events); err != nil {
		return err
	}
	found, err := outcomes(ctx, tx, o.cfg.Keyring, events, false)
	if err != nil {
		return err
	}
	var results []renderedResult
	for id, f := range found {
		if f.document != nil || !f.AtRest || f.Pruned || f.sealed != nil {
			continue
		}
		status, document, err := f.render()
		if err != nil {
			return err
		}
		stored, key := o.cfg.Keyring.Seal(place.Document(id), document)
		results = append(results, renderedResult{event: id, status: string(status), document: stored, keyID: key})
	}
	if len(results) == 0 {
		return nil
	}
	_, err = tx.Exec(ctx, insertResults, resultColumns.Args(results)...)
	return err
}
