package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// EffectFilter narrows a list of effects; a zero field does not.
type EffectFilter struct {
	Source string
	// Type is the event's, exact.
	Type  string
	Route string
	State string
	// Tenant is the event's: see [EventFilter].
	Tenant string
	// Since is the earliest time the effect was recorded.
	Since time.Time
	// Before is the last ID of the page before this one; zero starts at the newest.
	Before ID
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// EffectRow is one line of a list of effects.
type EffectRow struct {
	ID       ID         `json:"id"`
	Event    ID         `json:"event"`
	Source   string     `json:"source"`
	EventID  string     `json:"event_id"`
	Type     string     `json:"type"`
	Route    string     `json:"route"`
	Target   string     `json:"target"`
	State    string     `json:"state"`
	Reason   string     `json:"reason,omitempty"`
	Attempts int        `json:"attempts"`
	Code     string     `json:"code,omitempty"`
	NextAt   *time.Time `json:"next_at,omitempty"`

	// Item is the position in a list of which the effect is one item; 0 for all others.
	Item int `json:"item,omitempty"`
	// Tenant is the event's; empty is nobody in particular.
	Tenant string `json:"tenant,omitempty"`
}

const listEffects = `
SELECT x.id, x.event_id, s.name, e.event_id, e.type, r.name, r.target, x.state, coalesce(x.reason, ''),
       x.attempts, coalesce(x.last_code, ''), x.next_at, x.item, coalesce(e.tenant, s.tenant)
FROM effect x
JOIN route r ON r.id = x.route_id
JOIN inbox_event e ON e.id = x.event_id
JOIN source s ON s.id = e.source_id
WHERE ($1::text = '' OR s.name = $1)
  AND ($2::text = '' OR e.type = $2)
  AND ($3::text = '' OR r.name = $3)
  AND ($4::text = '' OR x.state = $4)
  AND ($5::uuid IS NULL OR x.id >= $5)
  AND ($6::uuid IS NULL OR x.id < $6)
  AND ($7::uuid IS NULL OR x.event_id = $7 AND x.item <= $10)
  AND ($8::text = '' OR coalesce(e.tenant, s.tenant) = $8)
ORDER BY x.id DESC
LIMIT $9`

// shownItems is how many items of each of its lists an event shows.
const shownItems = 100

// Effects gives one page of effects, newest first.
func (l *Lister) Effects(ctx context.Context, f EffectFilter) ([]EffectRow, error) {
	return l.effects(ctx, f, ID{})
}

func (l *Lister) effects(ctx context.Context, f EffectFilter, event ID) ([]EffectRow, error) {
	rows, err := l.pool.Query(ctx, listEffects,
		f.Source, f.Type, f.Route, f.State, firstIDSince(f.Since), f.Before, event, f.Tenant, row.PageSize(f.Limit), shownItems)
	if err != nil {
		return nil, fmt.Errorf("listing effects: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[EffectRow])
	if err != nil {
		return nil, fmt.Errorf("listing effects: %w", err)
	}
	return out, nil
}

// AttemptRow is one attempt of an effect.
type AttemptRow struct {
	Attempt    int       `json:"attempt"`
	Trigger    string    `json:"trigger"`
	Node       string    `json:"node"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	Outcome    string    `json:"outcome"`
	// Reason is why it failed; empty for attempts of older versions.
	Reason  string `json:"reason,omitempty"`
	Code    string `json:"code,omitempty"`
	Excerpt string `json:"excerpt,omitempty"`

	// Recognised: the target said that it knew the key.
	Recognised bool `json:"recognised,omitempty"`
}

// EffectDetail is all that is known of one effect but what was sent.
type EffectDetail struct {
	EffectRow
	Key           string       `json:"idempotency_key"`
	Version       int          `json:"version"`
	Revision      int          `json:"revision"` // moves whenever it leaves a state at rest or is decided about
	RouteVersion  int          `json:"route_version"`
	Rearms        int          `json:"rearms"`
	SendStartedAt *time.Time   `json:"send_started_at,omitempty"`
	LeaseUntil    *time.Time   `json:"lease_until,omitempty"`
	FinishedAt    *time.Time   `json:"finished_at,omitempty"`
	DuplicateOf   *ID          `json:"duplicate_of,omitempty"`
	List          *ListSummary `json:"list,omitempty"` // if it became a list
	AttemptRows   []AttemptRow `json:"attempt_rows"`
}

const showEffect = `
SELECT x.id, x.event_id, s.name, e.event_id, e.type, r.name, r.target, x.state, coalesce(x.reason, ''),
       x.attempts, coalesce(x.last_code, ''), x.next_at, x.item,
       x.idempotency_key, x.version, x.revision, x.route_version, x.rearms, x.send_started_at, x.lease_until, x.finished_at,
       x.duplicate_of, coalesce(e.tenant, s.tenant)
FROM effect x
JOIN route r ON r.id = x.route_id
JOIN inbox_event e ON e.id = x.event_id
JOIN source s ON s.id = e.source_id
WHERE x.id = $1`

// In the order they were made: the version rises with every rest an effect is
// brought back from.
const listAttempts = `
SELECT attempt, trigger, node, started_at, finished_at, outcome, coalesce(reason, ''), coalesce(code, ''), coalesce(excerpt, ''), recognised,
    excerpt_key_id, excerpt_sealed
FROM effect_attempt
WHERE effect_id = $1
ORDER BY version, attempt`

// Effect gives one effect by our id. It returns [ErrNotFound] if there is none.
func (l *Lister) Effect(ctx context.Context, id ID) (*EffectDetail, error) {
	var d EffectDetail
	err := l.pool.QueryRow(ctx, showEffect, id).Scan(
		&d.ID, &d.Event, &d.Source, &d.EventID, &d.Type, &d.Route, &d.Target, &d.State, &d.Reason,
		&d.Attempts, &d.Code, &d.NextAt, &d.Item,
		&d.Key, &d.Version, &d.Revision, &d.RouteVersion, &d.Rearms, &d.SendStartedAt, &d.LeaseUntil, &d.FinishedAt,
		&d.DuplicateOf, &d.Tenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("effect %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading effect %s: %w", id, err)
	}
	if d.List, err = l.list(ctx, &d); err != nil {
		return nil, err
	}
	rows, err := l.pool.Query(ctx, listAttempts, id)
	if err != nil {
		return nil, fmt.Errorf("reading the attempts of effect %s: %w", id, err)
	}
	if d.AttemptRows, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (AttemptRow, error) { return l.attempt(r, id) }); err != nil {
		return nil, fmt.Errorf("reading the attempts of effect %s: %w", id, err)
	}
	return &d, nil
}

// attempt reads one attempt; an excerpt that cannot be opened says so itself.
func (l *Lister) attempt(r pgx.CollectableRow, effect ID) (AttemptRow, error) {
	var (
		a      AttemptRow
		keyID  *int32
		sealed []byte
	)
	err := r.Scan(&a.Attempt, &a.Trigger, &a.Node, &a.StartedAt, &a.FinishedAt, &a.Outcome, &a.Reason, &a.Code, &a.Excerpt, &a.Recognised, &keyID, &sealed)
	if err != nil || keyID == nil {
		return a, err
	}
	plain, err := l.keys.Open(place.Excerpt(effect), keyID, sealed)
	if a.Excerpt = string(plain); err != nil {
		a.Excerpt = "(" + err.Error() + ")"
	}
	return a, nil
}
