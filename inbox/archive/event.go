package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Content is the delivery of an event as it was recorded.
type Content struct {
	// Headers are its headers as JSON, and Delivery is its whole body.
	Headers, Delivery []byte
	// Body is the event's part of Delivery.
	Body []byte
}

const readArchivedEvent = `SELECT v.body_id, v.body_offset, v.body_length, v.body_sha256, v.class FROM inbox_event v WHERE v.id = $1`

// Event reads the delivery of one event from the archive, opens it with keys and compares the event's part with the hash in its
// row. It returns [ErrNotArchived], [ErrMismatch], another [ErrDamaged], a [seal.LostError], or an error that [IsUnavailable] knows.
func (a *Archive) Event(ctx context.Context, keys *seal.Keyring, event inbox.ID) (Content, error) {
	if a == nil {
		return Content{}, ErrNotArchived
	}
	var body inbox.ID
	var offset, length int
	var hash []byte
	var class string
	err := a.cfg.Pool.QueryRow(ctx, readArchivedEvent, event).Scan(&body, &offset, &length, &hash, &class)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && class == row.ErasedClass {
		return Content{}, ErrNotArchived
	}
	if err != nil {
		return Content{}, &UnavailableError{err}
	}
	line, err := a.body(ctx, body)
	if err != nil {
		return Content{}, err
	}
	c := Content{}
	if c.Headers, c.Delivery, err = line.open(keys); err != nil {
		return Content{}, err
	}
	if offset < 0 || length < 0 || offset+length > len(c.Delivery) {
		return Content{}, ErrMismatch
	}
	c.Body = c.Delivery[offset : offset+length : offset+length]
	if err := a.checkHash(ctx, keys, c.Body, hash, line.KeyID != nil); err != nil {
		return Content{}, err
	}
	return c, nil
}

// open returns the headers and the body in plain. A body without bytes is not nil.
func (l *Line) open(keys *seal.Keyring) (headers, body []byte, err error) {
	if l.KeyID == nil {
		return l.Headers, row.NotNil(l.Body), nil
	}
	if headers, err = keys.Open(l.place("headers"), l.KeyID, l.Headers); err != nil {
		return nil, nil, err
	}
	body, err = keys.Open(l.place("body"), l.KeyID, l.Body)
	return headers, row.NotNil(body), err
}

// place is where a column was sealed.
func (l *Line) place(column string) seal.Place {
	switch {
	case l.Kind == Conflict:
		return place.Conflict(l.ID, column)
	case column == "headers":
		return place.Headers(l.ID)
	}
	return place.Body(l.ID)
}

// checkHash compares content with the hash in the event's row. A hash with a secret that this process cannot open proves nothing;
// a sealed body was authenticated when it was opened.
func (a *Archive) checkHash(ctx context.Context, keys *seal.Keyring, content, stored []byte, sealed bool) error {
	sum := sha256.Sum256(content)
	if !inbox.HashHasKey(stored) {
		if (inbox.InstallationSecret{}).IsStoredHash(stored, sum[:]) {
			return nil
		}
		return ErrMismatch
	}
	secrets, err := inbox.InstallationSecrets(ctx, a.cfg.Pool, keys, nil)
	if err != nil {
		return &UnavailableError{err}
	}
	opened := false
	for _, s := range secrets {
		if s.Err == nil && s.IsStoredHash(stored, sum[:]) {
			return nil
		}
		opened = opened || s.Err == nil
	}
	if !opened && sealed {
		return nil
	}
	return fmt.Errorf("%w with a secret", ErrMismatch)
}
