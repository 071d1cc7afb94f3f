package move

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/sleep"
)

// Database is one of the two databases of a move.
type Database struct {
	// Name is its name in the configuration.
	Name string

	// Pool has the rights of a server.
	Pool *pgxpool.Pool
}

// Move moves one source. All fields but Keys and Report are required. The caller must not move a source of operations, because the callers of
// these ask for results that the first database has.
type Move struct {
	From, To Database

	// Source is the name of the source.
	Source string

	// Keys is the keyring, or nil if nothing is sealed.
	Keys *seal.Keyring

	// Actor and Reason are who moves the source, and why.
	Actor, Reason string

	// Report gets the progress. It is called by the goroutine that runs the move.
	Report func(Progress)
}

// Step is a step of a move.
type Step string

// The steps. Part of the API: never change.
const (
	StepCopying Step = "copying"
	StepClosed  Step = "closed"
	StepOpen    Step = "open"
	StepSettled Step = "settled"
)

// Progress is how far a move is.
type Progress struct {
	// Step is the current step.
	Step Step `json:"step"`

	// Keys is how many keys were copied, and Total how many there were when the copy began.
	Keys  int64 `json:"keys"`
	Total int64 `json:"total"`

	// Unfinished is how many effects the other database's routes wait for.
	Unfinished int64 `json:"unfinished,omitempty"`
}

// The errors of a move that cannot begin. Nothing was changed.
var (
	// ErrUnknown means that the first database does not have the source.
	ErrUnknown = errors.New("the database does not have the source")

	// ErrOccupied means that the other database has a source of that name with its own events.
	ErrOccupied = errors.New("the other database has another source of that name")

	// ErrSecrets means that the two databases hash under different secrets, so that neither could compare the hashes of the other.
	ErrSecrets = errors.New("the databases have different installation secrets")

	// ErrUndecided means that dead or indeterminate effects of ordered routes, or of routes with keys, wait for a decision.
	ErrUndecided = errors.New("effects wait for a decision")

	// ErrStays means that the source belongs to its database, because it has an outbox.
	ErrStays = errors.New("the source cannot leave its database")

	// ErrOther means that the source is on its way to another database.
	ErrOther = errors.New("another move of the source has not ended")

	// ErrRunning means that another call moves the source at this moment.
	ErrRunning = errors.New("another command moves the source")
)

const (
	// lockWait bounds one attempt to get the locks of a trigger. Deliveries wait behind it for as long.
	lockWait = time.Second

	// lockTries is how often that is tried, with a pause of lockPause between two attempts.
	lockTries = 60
	lockPause = time.Second

	// aloneTries is how often the lock of a move is tried.
	aloneTries = 10

	// settleEvery is how often the first database is asked whether its effects have ended.
	settleEvery = 500 * time.Millisecond
)

// source is the source in both databases.
type source struct {
	from, to int32

	// routes maps the ids of routes of the first database to those of the other one. careful are the routes of the first database that
	// are ordered or have keys.
	routes  map[int32]int32
	careful []int32

	// definitions maps the ids of order definitions in the same way.
	definitions map[int64]int64

	suppressed string // the last suppressed address that was copied

	move Residence
}

// Run moves the source, or continues a move that was interrupted. It returns the last Progress: after nil, the move is settled. If ctx ends, Run
// returns its error, and the next call continues.
func (m *Move) Run(ctx context.Context) (p Progress, err error) {
	if err := inbox.CheckExplanation(m.Actor, m.Reason); err != nil {
		return p, err
	}
	release, err := m.alone(ctx)
	if err != nil {
		return p, fmt.Errorf("moving source %s: %w", m.Source, err)
	}
	defer release()
	s, err := m.begin(ctx)
	if err != nil {
		return p, fmt.Errorf("moving source %s: %w", m.Source, err)
	}
	report := func(step Step, change func(*Progress)) {
		p.Step = step
		if change != nil {
			change(&p)
		}
		if m.Report != nil {
			m.Report(p)
		}
	}
	for _, step := range []struct {
		from Step
		do   func(context.Context, *source, func(Step, func(*Progress))) error
	}{
		{StepCopying, m.copyKeys},
		{StepClosed, m.open},
		{StepOpen, m.settle},
	} {
		if s.move.Step != step.from {
			continue
		}
		if err := step.do(ctx, s, report); err != nil {
			return p, fmt.Errorf("moving source %s: %w", m.Source, err)
		}
	}
	report(StepSettled, nil)
	return p, nil
}

// The lock ends with its session, so a killed move releases it.
const (
	tryLock = `SELECT pg_try_advisory_lock($1, hashtext(current_schema() || '/' || $2::text))`
	unlock  = `SELECT pg_advisory_unlock($1, hashtext(current_schema() || '/' || $2::text))`
)

// alone takes the lock of the move. It waits for a moment, because the server may not have noticed yet that a killed move is gone.
func (m *Move) alone(ctx context.Context) (release func(), err error) {
	conn, err := m.From.Pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		var got bool
		err := conn.QueryRow(ctx, tryLock, advisory.Move, m.Source).Scan(&got)
		if err == nil && got {
			break
		}
		if err == nil && try == aloneTries {
			err = ErrRunning
		}
		if err == nil {
			err = sleep.For(ctx, settleEvery)
		}
		if err != nil {
			conn.Release()
			return nil, err
		}
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockWait)
		defer cancel()
		if _, err := conn.Exec(ctx, unlock, advisory.Move, m.Source); err != nil {
			_ = conn.Conn().Close(ctx) // which ends the session with its lock
		}
		conn.Release()
	}, nil
}

// locked runs do in a transaction of a database, again and again if it does not get its locks in time.
func locked(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, lockWait.Milliseconds())); err != nil {
				return err
			}
			return do(tx)
		})
		if !row.IsLocked(err) || try == lockTries {
			return err
		}
		if err := sleep.For(ctx, lockPause); err != nil {
			return err
		}
	}
}
