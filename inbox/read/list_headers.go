package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
)

// The body's primary key finds the headers.
const readHeaders = `
SELECT b.headers, b.key_id, b.id
FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id AND b.class = e.class
WHERE e.id = $1`

// Headers returns the stored headers of the delivery in which an event arrived. It returns [inbox.ErrNotFound] if they are no
// longer stored, and not archived either.
func (l *Lister) Headers(ctx context.Context, id inbox.ID) (map[string][]string, error) {
	var (
		stored []byte
		keyID  *int32
		bodyID inbox.ID
	)
	err := l.pool.QueryRow(ctx, readHeaders, id).Scan(&stored, &keyID, &bodyID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		content, err := l.archived(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("headers of event %s: %w", id, err)
		}
		stored = content.Headers
	case err == nil:
		stored, err = l.keys.Open(place.Headers(bodyID), keyID, stored)
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("reading the headers of event %s: %w", id, err)
	}
	headers := map[string][]string{}
	if len(stored) > 0 {
		if err := json.Unmarshal(stored, &headers); err != nil {
			return nil, fmt.Errorf("reading the headers of event %s: %w", id, err)
		}
	}
	return headers, nil
}
