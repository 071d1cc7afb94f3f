package read

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// StreamFilter narrows a list of streams; a zero field does not.
type StreamFilter struct {
	Source string `json:"source,omitempty"`
	Route  string `json:"route,omitempty"`
	// Tenant takes the streams that have an effect of an event of the tenant: see [EventFilter].
	Tenant string `json:"tenant,omitempty"`
	// Key takes the streams of one sequence key, of every route that is not left out
	// otherwise. It is found by its hash, also where the key cannot be read or was erased.
	Key string `json:"key,omitempty"`
	// Blocked takes streams that an effect at rest blocks, Gap those that wait for a missing number. With both, a
	// stream that is either one is taken.
	Blocked bool `json:"blocked,omitempty"`
	Gap     bool `json:"gap,omitempty"`
	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string `json:"-"`
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int `json:"-"`
}

// StreamRow is one line of a list of streams: one sequence key of one route.
type StreamRow struct {
	ID     int64  `json:"id"`
	Source string `json:"source"`
	Route  string `json:"route"`
	// Key is empty if it cannot be read here, and once an event of the stream was erased.
	Key string `json:"key" shows:"sequence_key"`
	// StartedAt is when the first effect of the key came. Lists are in its order.
	StartedAt time.Time `json:"started_at"`
	// KeyMissing is the sealing key that the keyring lacks for Key; 0 where it lacks none.
	KeyMissing int32 `json:"key_missing,omitempty"`
	// Applied is the highest number that is settled or abandoned; empty if there is none.
	Applied string `json:"applied,omitempty"`
	// Held is how many effects wait, counted up to [MaxHeld].
	Held int `json:"held"`
	// Undecided is how many of them only a person ends, counted like Held: see
	// [Lister.Undecided].
	Undecided int        `json:"undecided,omitempty"`
	InFlight  *inbox.ID  `json:"in_flight,omitempty"`
	GapSince  *time.Time `json:"gap_since,omitempty"`
	BlockedBy *inbox.ID  `json:"blocked_by,omitempty"`
	UpdatedAt time.Time  `json:"updated_at"`
}

// MaxHeld is how far the held effects of one stream are counted.
const MaxHeld = 1000

// The held effects are counted for the rows of the page only.
const (
	selectStreams = `
SELECT t.id, s.name, r.name, t.key_label, t.key_label_sealed, t.key_label_key_id, t.route_id, t.key_hash,
    coalesce(trim_scale(t.applied)::text, ''), h.held, h.undecided, t.in_flight, t.gap_since, t.blocked_by, t.updated_at, t.started_at
FROM (SELECT st.* FROM stream st`
	joinStreams = ` ORDER BY st.id DESC LIMIT ?) t
JOIN route r ON r.id = t.route_id
JOIN source s ON s.id = r.source_id
CROSS JOIN LATERAL (
    SELECT count(*) AS held, count(*) FILTER (WHERE w.undecided) AS undecided
    FROM (SELECT ` + row.HeldForPerson + ` AS undecided FROM effect e WHERE e.route_id = t.route_id AND e.sequence_key_hash = t.key_hash AND e.state = 'held' LIMIT ?) w
) h
ORDER BY t.id DESC`
)

// streamTenant takes the streams st that have an effect of an event of a tenant.
const streamTenant = `(SELECT true FROM effect e WHERE e.route_id = st.route_id AND e.sequence_key_hash = st.key_hash AND ` + effectTenant + ` LIMIT 1)`

// narrowStreams returns the conditions of the filter on a stream st. routes and hashes come from [Lister.keyed].
func (l *Lister) narrowStreams(f *StreamFilter, routes []int32, hashes [][]byte) (p row.Predicates) {
	var in row.Predicates
	in.AddIf(f.Source != "", `s.name = ?`, f.Source)
	in.AddIf(f.Route != "", `r.name = ?`, f.Route)
	p.AddAround(`st.route_id = ANY (ARRAY(SELECT r.id FROM route r JOIN source s ON s.id = r.source_id WHERE `, in, `))`)
	p.AddIf(routes != nil, `st.id = ANY (ARRAY(SELECT k.id FROM unnest(?::int[], ?::bytea[]) AS a (route_id, key_hash) JOIN stream k ON k.route_id = a.route_id AND k.key_hash = a.key_hash))`, routes, hashes)
	p.AddIf(f.Tenant != "", streamTenant, f.Tenant)
	p.AddIf(l.tenant != "", streamTenant, l.tenant)
	return p
}

// Streams returns one page of streams, newest first. It returns [ErrCursor] for a cursor of another list or filter.
func (l *Lister) Streams(ctx context.Context, f StreamFilter) (Page[StreamRow], error) {
	page, err := l.streams(ctx, f)
	if err != nil {
		return page, fmt.Errorf("listing streams: %w", err)
	}
	return page, nil
}

func (l *Lister) streams(ctx context.Context, f StreamFilter) (page Page[StreamRow], err error) {
	w := listWalk[StreamRow, int64]{cursor: newListCursor[int64]("streams", f), limit: f.Limit, place: func(r *StreamRow) int64 { return r.ID }}
	if w.from, err = w.cursor.begin(f.Cursor); err != nil {
		return page, err
	}
	routes, hashes, err := l.keyed(ctx, f)
	if err != nil {
		return page, err
	}
	narrow := l.narrowStreams(&f, routes, hashes)
	between := func(first, before int64) (p row.Predicates) {
		p.AddIf(first != 0, `st.id >= ?`, first)
		p.AddIf(before != 0, `st.id < ?`, before)
		return p
	}
	read := func(ctx context.Context, p row.Predicates, limit int) ([]StreamRow, error) {
		var s row.Statement
		s.Add(selectStreams).Where(p).Add(joinStreams, limit, MaxHeld)
		return collect(ctx, l, &s, func(row pgx.CollectableRow) (s StreamRow, err error) {
			var key streamKey
			err = row.Scan(&s.ID, &s.Source, &s.Route, &key.label.Plain, &key.label.Sealed, &key.label.KeyID, &key.routeID, &key.hash, &s.Applied,
				&s.Held, &s.Undecided, &s.InFlight, &s.GapSince, &s.BlockedBy, &s.UpdatedAt, &s.StartedAt)
			s.Key, s.KeyMissing = key.open(l.keys)
			return s, err
		})
	}
	// The conditions on each stream if the table is walked.
	all := narrow.With()
	all.AddIf(f.Blocked && f.Gap, `(st.blocked_by IS NOT NULL OR st.gap_since IS NOT NULL)`)
	all.AddIf(f.Blocked && !f.Gap, `st.blocked_by IS NOT NULL`)
	all.AddIf(f.Gap && !f.Blocked, `st.gap_since IS NOT NULL`)
	w.read = func(ctx context.Context, from, to int64, limit int) ([]StreamRow, error) {
		return read(ctx, append(between(to, from), all...), limit)
	}
	if len(all) == 0 || f.Key != "" {
		return w.page(ctx, l.search())
	}
	w.edge = func(ctx context.Context, from int64, rows int) (int64, time.Time, error) {
		var s row.Statement
		s.Add(`SELECT st.id, st.started_at FROM stream st`).Where(between(0, from)).Add(` ORDER BY st.id DESC OFFSET ? - 1 LIMIT 1`, rows)
		return l.numberEdge(ctx, &s)
	}
	if !f.Blocked && !f.Gap {
		return w.page(ctx, l.search())
	}
	w.fewFirst = true
	w.few = func(ctx context.Context, from int64, limit int) ([]StreamRow, bool, error) {
		var s row.Statement
		s.Add(`SELECT count(*) FROM (`)
		f.addWaiting(&s, few+1)
		whole, err := l.isFew(ctx, s.Add(`) c`))
		if !whole || err != nil {
			return nil, false, err
		}
		rows, err := read(ctx, append(append(between(0, from), narrow...), func(s *row.Statement) {
			s.Add(`st.id = ANY (ARRAY(`)
			f.addWaiting(s, 2*few)
			s.Add(`))`)
		}), limit)
		return rows, true, err
	}
	return w.page(ctx, l.search())
}

// addWaiting adds the ids of the streams that wait, as the filter asks, to a statement. It reads them from indexes
// that contain no other streams.
func (f *StreamFilter) addWaiting(s *row.Statement, limit int) {
	if f.Blocked {
		s.Add(`(SELECT b.id FROM stream b WHERE b.blocked_by IS NOT NULL ORDER BY b.route_id, b.id LIMIT ?)`, limit)
	}
	if f.Blocked && f.Gap {
		s.Add(` UNION `)
	}
	if f.Gap {
		s.Add(`(SELECT g.id FROM stream g WHERE g.gap_since IS NOT NULL ORDER BY g.gap_since LIMIT ?)`, limit)
	}
}
