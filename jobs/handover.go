package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox"
)

// In a rolling deploy a process may fetch the wake-up of an effect whose route only newer processes
// know. If the table of processes lists such a process, the wake-up is handed over: its kind
// becomes the kind of its route, which only processes that know the route fetch from River. Each
// wake-up is handed over once, regardless of the number of processes, and then waits like any other
// until one of them has room. No process polls a further queue for it. The effect's row does not
// change, and the job changes only its kind: no attempt is counted, and the order is not affected.
//
// If the processes that know the route disappear, the sweeper takes the wake-ups back.

// handedPrefix starts the kind of a wake-up that was handed over. It is stored in river_job: never
// change.
const handedPrefix = string(inbox.WakeEffect) + "/"

// handedArgs is the wake-up of an effect that was handed over.
type handedArgs struct {
	effectArgs
	route int32
}

// Kind implements [river.JobArgs].
func (a handedArgs) Kind() string { return handedPrefix + strconv.Itoa(int(a.route)) }

// handedWorker works the wake-ups of one route that other processes have handed over.
type handedWorker struct {
	river.WorkerDefaults[handedArgs]
	worker *effectWorker
}

// Work implements [river.Worker].
func (w *handedWorker) Work(ctx context.Context, job *river.Job[handedArgs]) error {
	return w.worker.Work(ctx, &river.Job[effectArgs]{JobRow: job.JobRow, Args: job.Args.effectArgs})
}

// handOvers changes the kinds of jobs. One statement serves all concurrent callers.
type handOvers struct {
	pool *pgxpool.Pool

	mu      sync.Mutex
	next    *handOverGroup // takes callers until it begins
	running sync.Mutex     // one statement at a time
}

type handOverGroup struct {
	jobs   []int64
	routes []int32
	once   sync.Once
	err    error
}

// handOverBound bounds the statement.
const handOverBound = 5 * time.Second

// A job that is not running any more was considered lost and has a successor.
const handOverJobs = `
UPDATE river_job j SET kind = '` + handedPrefix + `' || a.route
FROM unnest($1::bigint[], $2::int[]) AS a (id, route)
WHERE j.id = a.id AND j.state = 'running'`

// do hands the job, which this process runs, over to the processes that know the route. They can
// fetch it once it is snoozed.
func (h *handOvers) do(job int64, route int32) error {
	h.mu.Lock()
	if h.next == nil {
		h.next = &handOverGroup{}
	}
	g := h.next
	g.jobs, g.routes = append(g.jobs, job), append(g.routes, route)
	h.mu.Unlock()
	g.once.Do(func() {
		h.running.Lock()
		defer h.running.Unlock()
		h.mu.Lock()
		h.next = nil // callers that come later join the next group
		h.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), handOverBound)
		defer cancel()
		if _, err := h.pool.Exec(ctx, handOverJobs, g.jobs, g.routes); err != nil {
			g.err = fmt.Errorf("handing wake-ups over: %w", err)
		}
	})
	return g.err
}

// These wake-ups were handed over to processes that have disappeared since. A job that was fetched
// in the meantime stays with the process that has it.
const takeBackJobs = `
UPDATE river_job SET kind = '` + string(inbox.WakeEffect) + `'
WHERE id = ANY ($1::bigint[]) AND state = 'available' AND kind LIKE '` + handedPrefix + `%'`

// takeBack makes wake-ups ordinary again.
func (s *Sweeper) takeBack(ctx context.Context, jobs []int64) (int, error) {
	if len(jobs) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	slices.Sort(jobs)
	tag, err := s.cfg.Pool.Exec(ctx, takeBackJobs, jobs)
	if err != nil {
		return 0, fmt.Errorf("taking back wake-ups that were handed over: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
