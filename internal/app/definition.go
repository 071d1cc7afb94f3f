package app

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/definition"
)

// revisionTimeout bounds one reading of the revision.
const revisionTimeout = 3 * time.Second

// Revision returns the revision of the sources of the database.
func (a *App) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, revisionTimeout)
	defer cancel()
	return definition.Revision(ctx, a.adminPool)
}

// AnnounceRevision records in the table of processes which revision of the sources of the database this process serves. Operators and
// commands read it there.
func (a *App) AnnounceRevision(ctx context.Context) error {
	return a.fleet.Serve(ctx, a.settings.Revision)
}
