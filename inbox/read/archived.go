package read

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
)

// WithArchive returns a Lister that reads bodies from the archive if the database no longer has them.
func (l *Lister) WithArchive(a *archive.Archive) *Lister {
	with := *l
	with.archive = a
	return &with
}

// archived reads the delivery of an event from the archive. It returns [inbox.ErrNotFound] if the archive does not have it.
func (l *Lister) archived(ctx context.Context, id inbox.ID) (archive.Content, error) {
	content, err := l.archive.Event(ctx, l.keys, id)
	if errors.Is(err, archive.ErrNotArchived) {
		return content, fmt.Errorf("%w", inbox.ErrNotFound)
	}
	return content, err
}
