package prune

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

const (
	readOtherClasses = `SELECT name FROM retention_class WHERE name <> ALL ($1::text[]) ORDER BY name`

	deleteBody = `DELETE FROM inbox_body WHERE class = $1 AND id = $2`

	readErasedBody = `SELECT key_id, headers, body FROM inbox_body WHERE class = $1 AND id = $2 FOR UPDATE`

	// The headers and the body are under one key.
	writeErasedBody = `UPDATE inbox_body SET headers = $3, body = $4, key_id = $5 WHERE class = $1 AND id = $2`
)

// eraseBody blanks the bytes of the events, or removes the body if no other event needs
// it. A body may exist twice: only the events that needed it beyond its day refer to
// the copy.
func (r *Erase) eraseBody(ctx context.Context, tx pgx.Tx, d *deliveryEvents, body inbox.ID, out *Erased) error {
	var classes []string
	for _, e := range slices.Concat(d.erase, d.keep) {
		if e.class != row.ErasedClass && !slices.Contains(classes, e.class) {
			classes = append(classes, e.class)
		}
	}
	if slices.Contains(classes, row.KeptClass) {
		// Between its copying and the end of its day, no event may refer to the
		// original.
		rows, err := tx.Query(ctx, readOtherClasses, classes)
		if err != nil {
			return err
		}
		others, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		classes = append(classes, others...)
	}
	for _, class := range classes {
		stays := slices.ContainsFunc(d.keep, func(e erased) bool { return e.class == class })
		if !stays {
			tag, err := tx.Exec(ctx, deleteBody, class, body)
			if err != nil {
				return err
			}
			out.Body = out.Body || tag.RowsAffected() > 0
			continue
		}
		found, err := r.blank(ctx, tx, class, body, d, out)
		if err != nil {
			return err
		}
		out.Body, out.Shared = out.Body || found, out.Shared || found
	}
	return nil
}

// blank puts spaces where the events were, and seals the delivery again.
func (r *Erase) blank(ctx context.Context, tx pgx.Tx, class string, id inbox.ID, d *deliveryEvents, out *Erased) (found bool, err error) {
	var keyID *int32
	var headers, content []byte
	err = tx.QueryRow(ctx, readErasedBody, class, id).Scan(&keyID, &headers, &content)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if keyID != nil {
		if headers, content, err = r.openDelivery(id, keyID, headers, content); err != nil {
			out.Unopened = true
			return false, nil //nolint:nilerr // what cannot be read cannot be blanked, and other events need it
		}
	}
	content = bytes.Clone(content)
	for _, e := range slices.Concat(d.erase, d.erasedBefore) {
		if e.offset < 0 || e.length < 0 || e.offset+e.length > len(content) {
			return false, errors.New("the event lies outside its body")
		}
		copy(content[e.offset:], bytes.Repeat([]byte{' '}, e.length))
	}
	if keyID != nil {
		ring := r.Keyring.Ring() // one ring for both: it may be reloaded meanwhile
		headers, _ = ring.Seal(place.Headers(id), headers)
		content, keyID = ring.Seal(place.Body(id), content)
	}
	_, err = tx.Exec(ctx, writeErasedBody, class, id, headers, content, keyID)
	return true, err
}

func (r *Erase) openDelivery(id inbox.ID, keyID *int32, headers, body []byte) (openHeaders, openBody []byte, err error) {
	if openHeaders, err = r.Keyring.Open(place.Headers(id), keyID, headers); err != nil {
		return nil, nil, err
	}
	openBody, err = r.Keyring.Open(place.Body(id), keyID, body)
	return openHeaders, openBody, err
}
