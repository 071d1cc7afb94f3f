package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncegate/oncegate/internal/pgtext"
)

// maxError bounds the length of an error in river_job, in bytes.
const maxError = 2048

// guard is the outermost middleware of every worker. It recovers panics and cleans errors, because
// one NUL byte in an error stops River's completer for the whole process: a single statement
// completes a whole batch of jobs.
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

// cleanError keeps the errors that River acts on (snooze, cancel, stop). Of any other error it
// keeps only the cleaned text.
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
