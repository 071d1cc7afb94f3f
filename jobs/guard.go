package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncegate/oncegate/internal/pgtext"
)

// maxError bounds what an error may say in river_job.
const maxError = 2048

// guard is the outermost middleware of every worker. One NUL byte in an error
// freezes River's completer for the whole process, since a batch of jobs is
// completed by one statement; so panics are recovered here and errors cleaned.
type guard struct {
	river.MiddlewareDefaults
	client *Client
}

// Work implements [rivertype.WorkerMiddleware].
func (g *guard) Work(ctx context.Context, job *rivertype.JobRow, next func(context.Context) error) (err error) {
	if left, err := g.client.leaveToNewer(ctx, job.Kind, job.CreatedAt); left {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = errors.New(clean(fmt.Sprintf("panic: %v", p)))
		}
	}()
	return cleanError(next(ctx))
}

// cleanError keeps what River decides by (snooze, cancel, stop) and nothing else
// of an error but its cleaned text.
func cleanError(err error) error {
	if err == nil {
		return nil
	}
	if snooze, ok := errors.AsType[*rivertype.JobSnoozeError](err); ok {
		return snooze
	}
	if cancel, ok := errors.AsType[*rivertype.JobCancelError](err); ok {
		return river.JobCancel(errors.New(clean(cancel.Error())))
	}
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return errors.New(clean(err.Error()))
}

func clean(s string) string { return pgtext.Clean(s, maxError) }
