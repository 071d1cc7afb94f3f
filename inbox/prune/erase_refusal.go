package prune

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
)

// minSearchLength is the length of the shortest event id that refusals are searched
// for. A shorter id would match too many unrelated refusals.
const minSearchLength = 4

const (
	readSourceRefusals = `
SELECT r.id, r.url, r.diagnosis, r.key_id, r.headers, r.body FROM refusal r
WHERE r.source_id = $1 AND r.id > $2::uuid ORDER BY r.id LIMIT 50`

	deleteRefusalsByID = `DELETE FROM refusal WHERE id = ANY ($1::uuid[])`
)

// eraseRefusals removes the refused deliveries of the source that contain the event's
// id literally. It cannot find the id in another spelling, or in a refusal under a lost
// key.
func (r *Erase) eraseRefusals(ctx context.Context, pool *pgxpool.Pool, source int32, out *Erased) error {
	if len(r.EventID) < minSearchLength {
		out.NotSearched = true
		return nil
	}
	var after inbox.ID
	for {
		rows, err := pool.Query(ctx, readSourceRefusals, source, floor(after))
		if err != nil {
			return fmt.Errorf("searching refusals: %w", err)
		}
		var named []inbox.ID
		looked := 0
		var (
			id             inbox.ID
			url, diagnosis string
			keyID          *int32
			headers, body  []byte
		)
		_, err = pgx.ForEachRow(rows, []any{&id, &url, &diagnosis, &keyID, &headers, &body}, func() error {
			looked++
			after = id
			openHeaders, openBody, err := place.OpenRefusal(r.Keyring, id, keyID, headers, body)
			switch {
			case err != nil:
				out.Unreadable++
			case strings.Contains(url, r.EventID) || strings.Contains(diagnosis, r.EventID) ||
				bytes.Contains(openHeaders, []byte(r.EventID)) || bytes.Contains(openBody, []byte(r.EventID)):
				named = append(named, id)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("searching refusals: %w", err)
		}
		if len(named) > 0 {
			tag, err := pool.Exec(ctx, deleteRefusalsByID, named)
			if err != nil {
				return fmt.Errorf("removing refusals: %w", err)
			}
			out.Refusals += int(tag.RowsAffected())
		}
		if looked == 0 {
			return nil
		}
	}
}
