package read

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// Undecided is an effect that is held for a person: it has no sequence key or number,
// or the number of another one, and the route's order says hold; or its number is a time
// more than a day ahead of the receipt.
type Undecided struct {
	Effect     inbox.ID       `json:"effect"`
	Event      inbox.ID       `json:"event"`
	EventID    string         `json:"event_id"`
	Source     string         `json:"source"`
	Route      string         `json:"route"`
	Key        string         `json:"key,omitempty" shows:"sequence_key"`
	KeyMissing int32          `json:"key_missing,omitempty"` // as in [StreamRow]
	Number     string         `json:"number,omitempty"`
	Reason     reasons.Reason `json:"reason"`
	ReceivedAt time.Time      `json:"received_at"`
	// Stream is the id of its stream; 0 without a key.
	Stream int64 `json:"stream,omitempty"`
	// Revision moves whenever the effect is decided about.
	Revision int `json:"revision"`
}

// The statement reads the oldest effects of each route through the index of held effects, and returns the
// oldest of those.
const (
	selectUndecided = `
SELECT e.id, v.id, v.event_id, s.name, r.name, st.key_label, st.key_label_sealed, st.key_label_key_id, e.route_id, e.sequence_key_hash, coalesce(trim_scale(e.sequence_number)::text, ''), e.reason,
    v.received_at, coalesce(st.id, 0), e.revision
FROM (
    SELECT e.*
    FROM route r
    JOIN source s ON s.id = r.source_id
    CROSS JOIN LATERAL (SELECT e.* FROM effect e WHERE e.route_id = r.id AND ` + row.HeldForPerson
	limitUndecided = ` ORDER BY e.route_id, e.id LIMIT ?) e`

	// The effects of one stream or of one key are found through the index of their sequence.
	undecidedKeys = `
SELECT e.id, v.id, v.event_id, s.name, r.name, st.key_label, st.key_label_sealed, st.key_label_key_id, e.route_id, e.sequence_key_hash, coalesce(trim_scale(e.sequence_number)::text, ''), e.reason,
    v.received_at, coalesce(st.id, 0), e.revision
FROM (
    SELECT e.*
    FROM (`
	ofUndecidedKeys = `) k (route_id, key_hash)
    JOIN route r ON r.id = k.route_id
    JOIN source s ON s.id = r.source_id
    CROSS JOIN LATERAL (SELECT e.* FROM effect e WHERE e.route_id = k.route_id AND e.sequence_key_hash = k.key_hash AND ` + row.HeldForPerson
	joinUndecided = `
    ORDER BY e.id
    LIMIT ?) e
JOIN route r ON r.id = e.route_id
JOIN source s ON s.id = r.source_id
JOIN inbox_event v ON v.id = e.event_id
LEFT JOIN stream st ON st.route_id = e.route_id AND st.key_hash = e.sequence_key_hash
ORDER BY e.id`
)

// Undecided returns the oldest effects that are held for a person; if stream is not 0, only the effects
// of that stream. It uses the source, the route, the tenant, the key, the cursor and the limit of the
// filter. It returns [ErrCursor] for a cursor of another list or filter. The effects of one stream or one
// key are searched to the end; for the others, SearchedTo says up to when they were searched, from the
// oldest on.
func (l *Lister) Undecided(ctx context.Context, f StreamFilter, stream int64) (Page[Undecided], error) {
	page, err := l.undecided(ctx, f, stream)
	if err != nil {
		return page, fmt.Errorf("listing effects held for a person: %w", err)
	}
	return page, nil
}

func (l *Lister) undecided(ctx context.Context, f StreamFilter, stream int64) (page Page[Undecided], err error) {
	routes, hashes, err := l.keyed(ctx, f)
	if err != nil {
		return page, err
	}
	w := listWalk[Undecided, inbox.ID]{
		cursor: newListCursor[inbox.ID]("undecided", struct {
			StreamFilter
			Stream int64
		}{f, stream}),
		limit: f.Limit, place: func(u *Undecided) inbox.ID { return u.Effect },
	}
	if w.from, err = w.cursor.begin(f.Cursor); err != nil {
		return page, err
	}
	var in, narrow row.Predicates
	in.AddIf(f.Source != "", `s.name = ?`, f.Source)
	in.AddIf(f.Route != "", `r.name = ?`, f.Route)
	narrow.AddIf(f.Tenant != "", effectTenant, f.Tenant)
	narrow.AddIf(l.tenant != "", effectTenant, l.tenant)
	w.read = func(ctx context.Context, from, to inbox.ID, limit int) ([]Undecided, error) {
		var s row.Statement
		switch {
		case stream != 0:
			narrow := narrow.With()
			narrow.AddIf(routes != nil, `(e.route_id, e.sequence_key_hash) IN (SELECT * FROM unnest(?::int[], ?::bytea[]))`, routes, hashes)
			s.Add(undecidedKeys).Add(`SELECT t.route_id, t.key_hash FROM stream t WHERE t.id = ?`, stream).Add(ofUndecidedKeys)
			s.And(effectsBeyond(from, to)).And(narrow).Add(` OFFSET 0) e`)
		case routes != nil:
			s.Add(undecidedKeys).Add(`SELECT * FROM unnest(?::int[], ?::bytea[])`, routes, hashes).Add(ofUndecidedKeys)
			s.And(effectsBeyond(from, to)).And(narrow).Add(` OFFSET 0) e`)
		default:
			s.Add(selectUndecided).And(effectsBeyond(from, to)).And(narrow).Add(limitUndecided, limit)
		}
		s.Where(in).Add(joinUndecided, limit)
		return collect(ctx, l, &s, func(row pgx.CollectableRow) (u Undecided, err error) {
			var key streamKey
			err = row.Scan(&u.Effect, &u.Event, &u.EventID, &u.Source, &u.Route, &key.label.Plain, &key.label.Sealed, &key.label.KeyID,
				&key.routeID, &key.hash, &u.Number, &u.Reason, &u.ReceivedAt, &u.Stream, &u.Revision)
			u.Key, u.KeyMissing = key.open(l.keys)
			return u, err
		})
	}
	if stream == 0 && routes == nil {
		w.edge = l.edgeOfHeld(in)
	}
	return w.page(ctx, l.search())
}
