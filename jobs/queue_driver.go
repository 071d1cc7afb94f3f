package jobs

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// Every role that may connect to the database can send what River's processes listen to. Oncegate
// neither pauses a queue nor cancels a job, so it ignores all such requests: a pause would stop all
// effects until a person resumes the queue, and a cancelled attempt may have happened. It accepts the
// notifications that make work start sooner. River also looks for that work by itself, only later.

// The topics of River's notifications, as its listener gets them.
const (
	topicControl    = "river_control"    // pause, resume, cancel, metadata_changed
	topicInsert     = "river_insert"     // there are new jobs
	topicLeadership = "river_leadership" // resigned, request_resign
)

// queueDriver is River's driver for PostgreSQL, for a client that only its own process can stop.
type queueDriver struct{ *riverpgxv5.Driver }

func newQueueDriver(pool *pgxpool.Pool) *queueDriver { return &queueDriver{riverpgxv5.New(pool)} }

// GetExecutor implements [riverdriver.Driver].
func (d *queueDriver) GetExecutor() riverdriver.Executor {
	return &queueExecutor{d.Driver.GetExecutor()}
}

// GetListener implements [riverdriver.Driver].
func (d *queueDriver) GetListener(params *riverdriver.GetListenenerParams) riverdriver.Listener {
	return &queueListener{d.Driver.GetListener(params)}
}

// queueExecutor reads neither pauses nor requests to cancel.
type queueExecutor struct{ riverdriver.Executor }

// QueueCreateOrSetUpdatedAt implements [riverdriver.Executor]. A producer that starts asks it whether its
// queue is paused.
func (e *queueExecutor) QueueCreateOrSetUpdatedAt(ctx context.Context, params *riverdriver.QueueCreateOrSetUpdatedAtParams) (*rivertype.Queue, error) {
	queue, err := e.Executor.QueueCreateOrSetUpdatedAt(ctx, params)
	if queue != nil {
		queue.PausedAt = nil
	}
	return queue, err
}

// JobGetCancelRequested implements [riverdriver.Executor].
func (*queueExecutor) JobGetCancelRequested(context.Context, *riverdriver.JobGetCancelRequestedParams) ([]int64, error) {
	return nil, nil
}

// queueListener accepts only the notifications that make work start sooner.
type queueListener struct{ riverdriver.Listener }

// Listen implements [riverdriver.Listener].
func (l *queueListener) Listen(ctx context.Context, topic string) error {
	if topic == topicControl {
		return nil
	}
	return l.Listener.Listen(ctx, topic)
}

// Unlisten implements [riverdriver.Listener].
func (l *queueListener) Unlisten(ctx context.Context, topic string) error {
	if topic == topicControl {
		return nil
	}
	return l.Listener.Unlisten(ctx, topic)
}

// WaitForNotification implements [riverdriver.Listener].
func (l *queueListener) WaitForNotification(ctx context.Context) (*riverdriver.Notification, error) {
	for {
		n, err := l.Listener.WaitForNotification(ctx)
		if err != nil || heard(n) {
			return n, err
		}
	}
}

// heard reports whether River may hear a notification. River would log each one that it could not
// read, however many are sent; and a leader that was asked to resign as often would never lead.
func heard(n *riverdriver.Notification) bool {
	var said struct {
		Action   string `json:"action"`
		LeaderID string `json:"leader_id"`
		Queue    string `json:"queue"`
	}
	if err := json.Unmarshal([]byte(n.Payload), &said); err != nil {
		return false
	}
	switch n.Topic {
	case topicInsert:
		return said.Queue != ""
	case topicLeadership:
		return said.Action == "resigned"
	}
	return false
}
