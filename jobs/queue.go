package jobs

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox"
)

// Stored in river_job: never change.
const (
	queueName = river.QueueDefault

	// replayQueue is for the jobs that work on replays, so that none of them takes a
	// worker from the effects.
	replayQueue = "replay"

	// River works jobs with a lower number first. A live delivery's job has livePriority, and a replayed effect's job has
	// lastPriority. [Client.keepPlace] raises a job to placePriority.
	placePriority = 1
	livePriority  = 2
	lastPriority  = 4

	// maxAttempts is passed to River as its own limit. It has no meaning for Oncegate, which counts
	// attempts in the effect's row, and only has to be high enough.
	maxAttempts = 1000
)

// effectArgs is the wake-up of one effect.
type effectArgs struct {
	Effect inbox.ID `json:"effect"`
}

// Kind implements [river.JobArgs].
func (effectArgs) Kind() string { return string(inbox.WakeEffect) }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (effectArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueName, MaxAttempts: maxAttempts}
}

// rearmArgs requests new attempts for the dead effects of one event.
type rearmArgs struct {
	Event inbox.ID `json:"event"`
}

// Kind implements [river.JobArgs].
func (rearmArgs) Kind() string { return string(inbox.WakeRearm) }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (rearmArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueName, MaxAttempts: maxAttempts}
}

// replayArgs asks for the next items of a running replay.
type replayArgs struct {
	Replay inbox.ID `json:"replay"`
}

// Kind implements [river.JobArgs].
func (replayArgs) Kind() string { return string(inbox.WakeReplay) }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (replayArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: replayQueue, MaxAttempts: maxAttempts}
}

// QueueConfig configures a [Queue]. Everything has a default.
type QueueConfig struct {
	// FetchCooldown is the least average time between two notifications of this process; workers
	// fetch no faster either. After a pause, up to 20 notifications may follow each other
	// immediately. It defaults to 10 ms.
	FetchCooldown time.Duration

	// Now defaults to time.Now.
	Now func() time.Time
}

// Queue inserts wake-ups into river_job with its own statements because they can be pipelined with
// the caller's. River's InsertManyTx needs a separate round trip, which costs the gate a quarter of
// its speed. A test compares the rows with those that InsertTx makes.
type Queue struct {
	cooldown time.Duration
	now      func() time.Time
	earliest atomic.Int64 // Unix nanoseconds; the cooldown after all notifications so far
}

var _ inbox.Enqueuer = (*Queue)(nil)

// NewQueue makes a Queue. It needs no connection and may be shared.
func NewQueue(cfg QueueConfig) *Queue {
	q := &Queue{cooldown: cfg.FetchCooldown, now: cfg.Now}
	if q.cooldown <= 0 {
		q.cooldown = DefaultFetchCooldown
	}
	if q.now == nil {
		q.now = time.Now
	}
	return q
}

// River takes ids from the same sequence.
const newJobID = `nextval('river_job_id_seq')`

// JobID implements [inbox.Enqueuer].
func (q *Queue) JobID() string { return newJobID }

// An unused reserved id leaves a harmless gap.
const reserveJobs = `
SELECT array_agg(` + newJobID + `)
FROM generate_series(1, $1::int)`

// ReserveTx implements [inbox.Enqueuer].
func (q *Queue) ReserveTx(b *pgx.Batch, n int, ids *[]int64) {
	b.Queue(reserveJobs, n).QueryRow(func(row pgx.Row) error { return row.Scan(ids) })
}

// The columns left out have River's own defaults, and so have the values here; a test checks both.
// River does not fetch an available job before its scheduled time.
const insertJobs = `
INSERT INTO river_job (id, args, kind, max_attempts, queue, priority, tags, scheduled_at)
SELECT coalesce(nullif(w.job_id, 0), ` + newJobID + `),
    jsonb_build_object(CASE w.kind WHEN 'rearm' THEN 'event' ELSE w.kind END, w.id::text),
    w.kind, $4::smallint, CASE w.kind WHEN 'replay' THEN '` + replayQueue + `' ELSE $5::text END, w.priority, '{}',
    now() + w.later * interval '1 microsecond'
FROM unnest($1::bigint[], $2::text[], $3::uuid[], $6::smallint[], $7::bigint[]) AS w (job_id, kind, id, priority, later)`

// OFFSET 0 keeps the subquery from becoming a join, whose plan would depend on the size of the table. A test compares
// the rows with rows that River's client inserts.
const insertRecordedJobs = `
INSERT INTO river_job (id, args, kind, max_attempts, queue, priority, tags, scheduled_at)
SELECT e.job_id, jsonb_build_object('` + string(inbox.WakeEffect) + `', k.id::text), '` + string(inbox.WakeEffect) + `', $2::smallint, $3::text, $4::smallint, '{}', now()
FROM unnest($1::uuid[]) AS k (id), LATERAL (SELECT f.job_id FROM effect f WHERE f.id = k.id OFFSET 0) AS e`

// InsertRecordedTx implements [inbox.Enqueuer].
func (q *Queue) InsertRecordedTx(b *pgx.Batch, effects []inbox.ID) {
	b.Queue(insertRecordedJobs, effects, maxAttempts, queueName, livePriority)
}

// The topic and the payload are those that River's client sends and its
// producers understand.
const notifyWorkers = `
SELECT pg_notify(concat(current_schema(), '.river_insert'), '{"queue": "` + queueName + `"}')`

// The statement follows a COMMIT and runs in its own transaction, because only there may it turn
// off waiting for the disk.
const notifyApart = `
SELECT set_config('synchronous_commit', 'off', true),
    pg_notify(concat(current_schema(), '.river_insert'), '{"queue": "` + queueName + `"}')`

// EnqueueTx implements [inbox.Enqueuer]. A notification that is lost with a rolled-back
// transaction, or left out because one was just sent, costs at most River's poll interval.
func (q *Queue) EnqueueTx(b *pgx.Batch, wakes []inbox.Wake) {
	q.InsertTx(b, wakes)
	if slices.ContainsFunc(wakes, func(w inbox.Wake) bool { return !w.Last }) && q.mayNotify() {
		b.Queue(notifyWorkers)
	}
}

// Notify implements [inbox.Enqueuer].
func (q *Queue) Notify(b *pgx.Batch) {
	if q.mayNotify() {
		b.Queue(notifyApart)
	}
}

// InsertTx implements [inbox.Enqueuer].
func (q *Queue) InsertTx(b *pgx.Batch, wakes []inbox.Wake) {
	if len(wakes) == 0 {
		return
	}
	jobIDs := make([]int64, len(wakes))
	kinds := make([]string, len(wakes))
	ids := make([]inbox.ID, len(wakes))
	priorities, later := make([]int16, len(wakes)), make([]int64, len(wakes))
	for i, w := range wakes {
		jobIDs[i], kinds[i], ids[i], priorities[i] = w.JobID, string(w.Kind), w.ID, livePriority
		if later[i] = w.In.Microseconds(); w.Last {
			priorities[i] = lastPriority
		}
	}
	b.Queue(insertJobs, jobIDs, kinds, ids, maxAttempts, queueName, priorities, later)
}

// notifyBurst is how many notifications may follow each other immediately. None is therefore left
// out except under a steady load. Under such a load workers fetch more jobs anyway as soon as they
// have finished the ones they had.
const notifyBurst = 20

func (q *Queue) mayNotify() bool {
	now, cooldown := q.now().UnixNano(), int64(q.cooldown)
	for {
		earliest := q.earliest.Load()
		next := max(earliest, now) + cooldown
		if next-now > notifyBurst*cooldown {
			return false
		}
		if q.earliest.CompareAndSwap(earliest, next) {
			return true
		}
	}
}
