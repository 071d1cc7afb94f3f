package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// RefusalFilter narrows a list of refusals; a zero field does not.
type RefusalFilter struct {
	Source string
	// Cause is exact.
	Cause string
	// Whole takes only those whose headers and body were kept.
	Whole bool
	// Tenant is that of the source: nobody has proved who sent what was refused.
	Tenant string
	// Since is the earliest receipt.
	Since time.Time
	// Before is the last ID of the page before this one; zero starts at the newest.
	Before ID
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// RefusalRow is one line of a list of refusals. Remote and the texts come from
// whoever sent the request.
type RefusalRow struct {
	ID         ID        `json:"id"`
	Source     string    `json:"source"`
	ReceivedAt time.Time `json:"received_at"`
	Cause      string    `json:"cause"`
	Diagnosis  string    `json:"diagnosis"`
	Whole      bool      `json:"whole"`
	Method     string    `json:"method"`
	URL        string    `json:"url"`
	Remote     string    `json:"remote"`
	Size       int       `json:"size"`
	// Tenant is the source's; empty is nobody in particular.
	Tenant string `json:"tenant,omitempty"`
}

// A refusal of a source that was since removed still has its row there: source
// rows are never deleted.
const listRefusals = `
SELECT r.id, s.name, r.received_at, r.cause, r.diagnosis, r.whole, r.method, r.url, r.remote, r.size, s.tenant
FROM refusal r JOIN source s ON s.id = r.source_id
WHERE ($1::text = '' OR s.name = $1)
  AND ($2::text = '' OR r.cause = $2)
  AND (NOT $3::boolean OR r.whole)
  AND ($4::uuid IS NULL OR r.id >= $4)
  AND ($5::uuid IS NULL OR r.id < $5)
  AND ($6::text = '' OR s.tenant = $6)
ORDER BY r.id DESC
LIMIT $7`

// Refusals gives one page of refused deliveries, newest first.
func (l *Lister) Refusals(ctx context.Context, f RefusalFilter) ([]RefusalRow, error) {
	rows, err := l.pool.Query(ctx, listRefusals, f.Source, f.Cause, f.Whole, firstIDSince(f.Since), f.Before, f.Tenant, row.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("listing refusals: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[RefusalRow])
	if err != nil {
		return nil, fmt.Errorf("listing refusals: %w", err)
	}
	return out, nil
}

// RefusalDetail is a refusal with what was kept of its request.
type RefusalDetail struct {
	RefusalRow
	Provider string `json:"provider"`
	// Headers are those kept with a whole refusal: what it takes to verify again.
	Headers map[string][]string `json:"headers,omitempty"`
	// Body is nil unless it was kept.
	Body []byte `json:"-"`
}

const showRefusal = `
SELECT r.id, s.name, r.received_at, r.cause, r.diagnosis, r.whole, r.method, r.url, r.remote, r.size,
       s.provider, r.key_id, r.headers, r.body, s.tenant
FROM refusal r JOIN source s ON s.id = r.source_id
WHERE r.id = $1`

// Refusal gives one refused delivery. It returns [ErrNotFound] if there is none.
func (l *Lister) Refusal(ctx context.Context, id ID) (*RefusalDetail, error) {
	var d RefusalDetail
	var headers []byte
	var keyID *int32
	err := l.pool.QueryRow(ctx, showRefusal, id).Scan(&d.ID, &d.Source, &d.ReceivedAt, &d.Cause, &d.Diagnosis, &d.Whole,
		&d.Method, &d.URL, &d.Remote, &d.Size, &d.Provider, &keyID, &headers, &d.Body, &d.Tenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("refusal %s: %w", id, ErrNotFound)
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
