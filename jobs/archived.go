package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// archiveWait bounds how long an attempt waits for the archive. It may hold the locks of its effect and of its stream meanwhile.
const archiveWait = 5 * time.Second

// checkContent reads a body from the archive if the database no longer has it. It puts off an effect whose content this process
// cannot read now, without counting an attempt, and returns nil for every other effect.
func (a attempt) checkContent(ctx context.Context) *inbox.Settlement {
	event := &a.claim.Event
	if event.BodyGone && event.GoneReason == reasons.BodyGone && (a.claim.Item == 0 || a.claim.Rendered == nil) {
		if s := a.readArchived(ctx); s != nil {
			return s
		}
	}
	return a.checkSealingKey(ctx)
}

// readArchived sets the body of the claim from the archive. A body that the archive does not have, or has damaged, stays gone.
func (a attempt) readArchived(ctx context.Context) *inbox.Settlement {
	ctx, cancel := context.WithTimeout(ctx, archiveWait)
	defer cancel()
	event := &a.claim.Event
	content, err := a.cfg.Archive.Event(ctx, a.store.Keyring(), event.ID)
	switch {
	case err == nil:
		event.Headers, event.Body, event.BodyGone, event.GoneReason = content.Headers, content.Body, false, ""
	case errors.Is(err, archive.ErrNotArchived):
	case errors.Is(err, archive.ErrDamaged):
		event.GoneReason = reasons.ArchiveDamaged
		a.log.ErrorContext(ctx, "the archive's body is not the one that was recorded", "effect", a.claim.Effect.String(), "event", event.ID.String(), "error", clean(err.Error()))
	case archive.IsUnavailable(err), ctx.Err() != nil:
		a.log.WarnContext(ctx, "an effect waits for the archive", "effect", a.claim.Effect.String(), "error", clean(err.Error()))
		s := putBack(a.claim, reasons.ArchiveUnavailable, a.jittered(longPause))
		return &s
	default:
		event.GoneReason, event.MissingKey = inbox.UnopenedReason(err)
	}
	return nil
}
