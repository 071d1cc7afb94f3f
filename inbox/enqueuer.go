package inbox

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// WakeKind is the kind of a job that the gate inserts. It is the job's kind in
// river_job. Stored: never change.
type WakeKind string

const (
	// WakeEffect wakes the worker for one effect; its ID is the effect's.
	WakeEffect WakeKind = "effect"
	// WakeRearm asks for new attempts of an event's dead effects; its ID is the
	// event's.
	WakeRearm WakeKind = "rearm"
	// WakeReplay asks for the next items of a running replay; its ID is the replay's.
	WakeReplay WakeKind = "replay"
)

// Wake is one job to insert.
type Wake struct {
	// JobID is a reserved id; 0 lets the database choose, for jobs that no row
	// refers to.
	JobID int64
	Kind  WakeKind
	ID    ID

	// Last puts the wake-up after the wake-ups of live deliveries.
	Last bool

	// In is the delay until a worker may take it. A negative In makes it that old:
	// workers take the oldest first.
	In time.Duration
}

// Enqueuer adds the wake-ups of a group of admissions to the queue, inside the
// group's transaction. It is declared here, by its caller; package jobs
// implements it. It works on batches, not on a transaction, so that its
// statements share a round trip with the caller's.
type Enqueuer interface {
	// ReserveTx queues a statement that reserves n job ids and fills ids when its result
	// is read. Unused ids leave a harmless gap.
	ReserveTx(b *pgx.Batch, n int, ids *[]int64)

	// JobID is the SQL expression that takes the id of a new job.
	JobID() string

	// InsertRecordedTx queues the statement that inserts a wake-up for each of the effects
	// that has a row, with the job id in that row. The caller sends the notification after
	// its COMMIT, with Notify.
	InsertRecordedTx(b *pgx.Batch, effects []ID)

	// EnqueueTx queues the statement that inserts the jobs, and, not more often than the
	// workers could use it, the notification that wakes them. If all wake-ups are Last,
	// the caller sends the notification after its COMMIT, with Notify.
	EnqueueTx(b *pgx.Batch, wakes []Wake)

	// InsertTx is EnqueueTx without the notification, which the caller sends after its
	// COMMIT, with Notify.
	InsertTx(b *pgx.Batch, wakes []Wake)

	// Notify queues the notification, not more often than the workers could use it, as a
	// separate transaction that does not wait for the disk. A transaction that notifies
	// keeps a lock on the whole cluster until its COMMIT is on disk, so that two groups
	// would wait for the disk one after the other.
	Notify(b *pgx.Batch)
}
