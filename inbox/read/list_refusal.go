package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// RefusalFilter narrows a list of refusals. A zero field does not narrow it.
type RefusalFilter struct {
	Source string `json:"source,omitempty"`
	// Cause is the exact cause.
	Cause string `json:"cause,omitempty"`
	// Peer is where the request came from: an IPv4 address, or the /64 network of an IPv6 address.
	Peer string `json:"peer,omitempty"`
	// Whole takes only refusals whose headers and body were stored.
	Whole bool `json:"whole,omitempty"`
	// Tenant is the tenant of the source, because the sender of a refused delivery is not proved.
	Tenant string `json:"tenant,omitempty"`
	// Since and Until limit the time of receipt: from Since on, and before Until.
	Since time.Time `json:"-"`
	Until time.Time `json:"-"`
	// Cursor is Next of the previous page; empty is the first page.
	Cursor string `json:"-"`
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int `json:"-"`
}

// RefusalRow is one line of a list of refusals. Do not trust Method, URL and Remote, because
// they come from the unverified request.
type RefusalRow struct {
	ID         inbox.ID  `json:"id"`
	Source     string    `json:"source"`
	ReceivedAt time.Time `json:"received_at"`
	Cause      string    `json:"cause"`
	Diagnosis  string    `json:"diagnosis"`
	Whole      bool      `json:"whole"`
	Method     string    `json:"method"`
	URL        string    `json:"url" shows:"url"`
	Remote     string    `json:"remote"`
	Size       int       `json:"size" shows:"length"`
	// Tenant is the tenant of the source; empty if it has none.
	Tenant string `json:"tenant,omitempty"`
}

// A refusal always has the row of its source, because source rows are never deleted. The statement reads the newest
// refusals of each source through the index of sources, and takes the newest of those, so that a source with few refusals is as
// fast as one with many.
const (
	selectRefusals = `
SELECT o.id, s.name, o.received_at, o.cause, o.diagnosis, o.whole, o.method, o.url, o.remote, o.size, s.tenant
FROM source s
CROSS JOIN LATERAL (
    SELECT o.* FROM refusal o WHERE o.source_id = s.id`
	selectRefusalsOf = `
    ORDER BY o.source_id DESC, o.id DESC LIMIT ?) o`
	orderRefusals = `
ORDER BY o.id DESC
LIMIT ?`
)

// edgeOfRefusals divides a window among the sources, as [heldOfRoutes] divides it among routes.
const edgeOfRefusals = ` ORDER BY o.source_id DESC, o.id DESC OFFSET greatest(? / greatest((SELECT count(*) FROM source), 1), 1) - 1 LIMIT 1) o`

// Refusals returns one page of refused deliveries, newest first. It returns [ErrCursor] for a cursor of another list or
// filter.
func (l *Lister) Refusals(ctx context.Context, f RefusalFilter) (page Page[RefusalRow], err error) {
	w := listWalk[RefusalRow, inbox.ID]{cursor: newListCursor[inbox.ID]("refusals", f), limit: f.Limit, place: func(r *RefusalRow) inbox.ID { return r.ID }}
	if w.from, err = w.cursor.begin(f.Cursor, idSince(f.Until)); err != nil {
		return page, fmt.Errorf("listing refusals: %w", err)
	}
	var sources, rows row.Predicates
	sources.AddIf(f.Source != "", `s.name = ?`, f.Source)
	sources.AddIf(f.Tenant != "", `s.tenant = ?`, f.Tenant)
	sources.AddIf(l.tenant != "", `s.tenant = ?`, l.tenant)
	rows.AddIf(f.Cause != "", `o.cause = ?`, f.Cause)
	rows.AddIf(f.Peer != "", `o.peer = ?`, f.Peer)
	rows.AddIf(f.Whole, `o.whole`)
	rows.AddIf(!f.Since.IsZero(), `o.id >= ?`, idSince(f.Since))
	w.read = func(ctx context.Context, from, to inbox.ID, limit int) ([]RefusalRow, error) {
		beyond := rows.With()
		beyond.AddIf(!from.IsZero(), `o.id < ?`, from)
		beyond.AddIf(!to.IsZero(), `o.id >= ?`, to)
		var s row.Statement
		s.Add(selectRefusals).And(beyond).Add(selectRefusalsOf, limit).Where(sources).Add(orderRefusals, limit)
		return collect(ctx, l, &s, pgx.RowToStructByPos[RefusalRow])
	}
	if f.Cause != "" || f.Peer != "" || f.Whole {
		w.edge = l.edgeOfRefusals(sources, f.Since)
	}
	if page, err = w.page(ctx, l.search()); err != nil {
		return page, fmt.Errorf("listing refusals: %w", err)
	}
	return page, nil
}

// edgeOfRefusals returns a function that finds where a window of refusals ends, newest first. in narrows the sources s.
func (l *Lister) edgeOfRefusals(in row.Predicates, since time.Time) func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
	return func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
		var beyond row.Predicates
		beyond.AddIf(!from.IsZero(), `o.id < ?`, from)
		beyond.AddIf(!since.IsZero(), `o.id >= ?`, idSince(since))
		var s row.Statement
		s.Add(`SELECT o.id FROM source s CROSS JOIN LATERAL (SELECT o.id FROM refusal o WHERE o.source_id = s.id`).And(beyond)
		s.Add(edgeOfRefusals, rows).Where(in).Add(` ORDER BY o.id DESC LIMIT 1`)
		return l.edge(ctx, &s)
	}
}

// RefusalDetail is a refusal with the stored parts of its request.
type RefusalDetail struct {
	RefusalRow
	Provider string `json:"provider"`
	// Headers are the headers needed to verify the request again. They are stored with a whole refusal.
	Headers map[string][]string `json:"headers,omitempty" shows:"content"`
	// Body is nil unless it was stored.
	Body []byte `json:"-"`
}

const showRefusal = `
SELECT r.id, s.name, r.received_at, r.cause, r.diagnosis, r.whole, r.method, r.url, r.remote, r.size,
       s.provider, r.key_id, r.headers, r.body, s.tenant
FROM refusal r JOIN source s ON s.id = r.source_id
WHERE r.id = $1`

// Refusal returns one refused delivery, or [inbox.ErrNotFound] if there is none.
func (l *Lister) Refusal(ctx context.Context, id inbox.ID) (*RefusalDetail, error) {
	var d RefusalDetail
	var headers []byte
	var keyID *int32
	if err := l.allow(ctx, KindRefusal, id); err != nil {
		return nil, fmt.Errorf("refusal %s: %w", id, err)
	}
	err := l.pool.QueryRow(ctx, showRefusal, id).Scan(&d.ID, &d.Source, &d.ReceivedAt, &d.Cause, &d.Diagnosis, &d.Whole,
		&d.Method, &d.URL, &d.Remote, &d.Size, &d.Provider, &keyID, &headers, &d.Body, &d.Tenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("refusal %s: %w", id, inbox.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading refusal %s: %w", id, err)
	}
	if headers, d.Body, err = place.OpenRefusal(l.keys, id, keyID, headers, d.Body); err != nil {
		return nil, fmt.Errorf("reading refusal %s: %w", id, err)
	}
	if len(headers) > 0 {
		if err := json.Unmarshal(headers, &d.Headers); err != nil {
			return nil, fmt.Errorf("reading the headers of refusal %s: %w", id, err)
		}
	}
	return &d, nil
}
