package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// The unique constraint of the keys serves it.
const readKnown = `
SELECT event_id, received_at, coalesce(admission_detail, '') FROM inbox_event WHERE source_id = $1 AND event_id = ANY ($2::text[])`

// knownEvent is a recorded event.
type knownEvent struct {
	receivedAt time.Time
	detail     string
}

// page counts the events of a page and admits those that are missing, the oldest first.
func (r *Run) page(ctx context.Context, p *Page, counts *Counts) error {
	var events []*Event
	var ids []string
	for i := range p.Events {
		e := &p.Events[i]
		if !e.Created.IsZero() && (e.Created.Before(r.Since) || e.Created.After(r.Until)) {
			continue
		}
		counts.Listed++
		if e.Other {
			counts.Other++
			continue
		}
		if e.Unusable != "" || !pgtext.Storable(e.ID) {
			counts.unusable(cmp.Or(e.Unusable, "its id cannot be stored"))
			continue
		}
		events, ids = append(events, e), append(ids, e.ID)
	}
	known, err := r.known(ctx, ids)
	if err != nil {
		return err
	}
	if r.NewestFirst {
		slices.Reverse(events) // so that events of the same time are in order too
	}
	slices.SortStableFunc(events, func(a, b *Event) int { return a.Created.Compare(b.Created) })
	for _, e := range events {
		k, ok := known[e.ID]
		switch {
		case ok:
			counts.Known++
			if k.detail != inbox.DetailReconciled && !e.Created.IsZero() && k.receivedAt.Sub(e.Created) > Late {
				counts.Late++
			}
		case r.seen[e.ID]:
			counts.Known++ // listed twice
		default:
			if len(r.seen) < maxSeen {
				r.seen[e.ID] = true
			}
			if err := r.admit(ctx, e, counts); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Run) known(ctx context.Context, ids []string) (map[string]knownEvent, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := r.Pool.Query(ctx, readKnown, r.Source, ids)
	if err != nil {
		return nil, fmt.Errorf("looking for the listed events: %w", err)
	}
	out := make(map[string]knownEvent, len(ids))
	var id string
	var k knownEvent
	if _, err := pgx.ForEachRow(rows, []any{&id, &k.receivedAt, &k.detail}, func() error { out[id] = k; return nil }); err != nil {
		return nil, fmt.Errorf("looking for the listed events: %w", err)
	}
	return out, nil
}

// admit admits a missing event, or asks its sender to deliver it again.
func (r *Run) admit(ctx context.Context, e *Event, counts *Counts) error {
	if e.Admission == nil {
		return r.redeliver(ctx, e, counts)
	}
	if r.DryRun {
		counts.Missing++
		return nil
	}
	receipt, err := r.Gate.Accept(ctx, e.Admission)
	if err != nil {
		return fmt.Errorf("admitting %s: %w", e.ID, err)
	}
	counts.Missing++
	for _, item := range receipt.Items {
		if item.Outcome == inbox.Recorded {
			counts.Admitted++
		} else {
			counts.Arrived++
		}
	}
	return nil
}

func (r *Run) redeliver(ctx context.Context, e *Event, counts *Counts) error {
	if r.DryRun {
		counts.Missing++
		return nil
	}
	err := r.Lister.Redeliver(ctx, e.Delivery)
	switch {
	case errors.Is(err, ErrRefused):
		counts.unusable("the sender refuses to deliver it again")
		return nil
	case err != nil:
		return fmt.Errorf("asking for %s again: %w", e.ID, err)
	}
	counts.Missing++
	counts.Redelivered++
	return nil
}
