package prune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/advisory"
)

// Config configures a [Pruner]. Pool is required.
type Config struct {
	// Pool provides the one connection of a pass, which the lock and the batches share.
	Pool *pgxpool.Pool

	// Effects settles what Include names; nil refuses Include.
	Effects *inbox.Effects

	// Archive takes bodies before they are removed. Nil, or one that is not configured, takes none.
	Archive *archive.Archive

	// Keyring opens the bodies with erased events before they are archived; nil where nothing is sealed.
	Keyring *seal.Keyring

	// Logger defaults to discarding.
	Logger *slog.Logger

	// Budget bounds a pass; the next one continues where it ended. 0 means no bound.
	Budget time.Duration

	// Batch is how long one batch may take: its size follows. It defaults to 200 ms.
	Batch time.Duration

	// Rate is how many rows are removed a second at most, with pauses between the batches, so that deliveries
	// are not slowed down. It defaults to 25,000; -1 makes no pauses.
	Rate int

	// CountLimit is how many rows of a table [Pruner.DryRun] reads, the oldest first. It defaults to 10,000.
	CountLimit int64

	// Progress is called after each batch, if set.
	Progress func(Progress)

	// Now measures batches and the budget; the database's clock decides which rows are due. It defaults to
	// time.Now.
	Now func() time.Time
}

// Prunable is a kind of row that prune removes only if it is named. Part of the CLI: never change.
type Prunable string

// The kinds that prune keeps unless they are named.
const (
	// Dead: dead effects, and events that are dead letters.
	Dead Prunable = "dead"
	// Indeterminate: effects whose outcome is not known.
	Indeterminate Prunable = "indeterminate"
	// Held: effects that wait for a predecessor.
	Held Prunable = "held"
	// Replay: effects and events that an open replay lists.
	Replay Prunable = "replay"
)

// Prunables are all that can be named.
func Prunables() []Prunable {
	return []Prunable{Dead, Indeterminate, Held, Replay}
}

// Run says what one pass may take. The zero value is what runs by itself.
type Run struct {
	// Include names rows that prune otherwise keeps. It needs Actor and Reason, which go into the audit.
	Include       []Prunable
	Actor, Reason string

	// Anew begins every walk from its start instead of where the last pass ended, to remove everything that
	// [Pruner.DryRun] counts.
	Anew bool
}

func (r *Run) includes(p Prunable) bool { return slices.Contains(r.Include, p) }

// Report is what one pass did.
type Report struct {
	// Obtained is false if another pass was under way: nothing was done.
	Obtained bool `json:"obtained"`

	// Complete is false if the budget, or a stop, ended the pass first.
	Complete bool `json:"complete"`

	// Rows are the rows removed, by table.
	Rows map[string]int64 `json:"rows"`

	// Partitions are the days of bodies that went, and Kept the bodies that were
	// still needed and moved out of them first.
	Partitions []string `json:"partitions"`
	Kept       int64    `json:"kept"`

	// Left counts the rows past their horizon that this pass read and kept, because they are still needed.
	Left int64 `json:"left"`

	// Archived is what the pass wrote to the archive.
	Archived Archived `json:"archived"`

	// Contended names the walks that ended because another session kept locks for too long; the next pass tries
	// again.
	Contended []string `json:"contended,omitempty"`

	Batches int           `json:"batches"`
	Elapsed time.Duration `json:"-"`
	Busy    time.Duration `json:"-"` // Elapsed without the pauses
}

// Removed is how many rows went, of all tables; days of bodies are not counted by
// rows.
func (r *Report) Removed() (sum int64) {
	for _, n := range r.Rows {
		sum += n
	}
	return sum
}

// Plus returns the sum of two reports, where other is of a pass that continued this one.
func (r Report) Plus(other Report) Report {
	rows := maps.Clone(r.Rows)
	if rows == nil {
		rows = map[string]int64{}
	}
	for table, n := range other.Rows {
		rows[table] += n
	}
	return Report{
		Obtained: other.Obtained, Complete: other.Complete, Rows: rows, Partitions: slices.Concat([]string{}, r.Partitions, other.Partitions), Kept: r.Kept + other.Kept,
		Left: r.Left + other.Left, Archived: r.Archived.plus(other.Archived), Contended: other.Contended, Batches: r.Batches + other.Batches, Elapsed: r.Elapsed + other.Elapsed, Busy: r.Busy + other.Busy,
	}
}

// Progress is how far a pass is.
type Progress struct {
	Step    string // the table or partition
	Removed int64  // rows, in the pass

	// Done is how far the walk is through the ids that may be due, from 0 to 1; of a
	// day of bodies 0 when what it still needs has been kept and it is taken off its
	// class, and 1 when it is gone.
	Done float64
}

// Pruner removes rows that are past their horizon and no longer needed.
type Pruner struct {
	cfg Config
	sql *statements
}

// New makes a Pruner, or reports everything that is wrong with cfg.
func New(cfg Config) (*Pruner, error) {
	var errs []error
	if cfg.Pool == nil {
		errs = append(errs, errors.New("prune: Pool is required"))
	}
	if cfg.Budget < 0 || cfg.Batch < 0 || cfg.CountLimit < 0 || cfg.Rate < -1 {
		errs = append(errs, errors.New("prune: Budget, Batch, CountLimit and Rate must not be negative, but for a Rate of -1"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	cfg.Batch = cmp.Or(cfg.Batch, 200*time.Millisecond)
	cfg.CountLimit = cmp.Or(cfg.CountLimit, 10_000)
	cfg.Rate = cmp.Or(cfg.Rate, 25_000)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Progress == nil {
		cfg.Progress = func(Progress) {}
	}
	return &Pruner{cfg: cfg, sql: newStatements(cfg.Archive.Configured())}, nil
}

// pass is one run over everything.
type pass struct {
	*Pruner
	run       Run
	conn      *pgx.Conn
	retention *retention
	report    Report

	passDeadline time.Time // the end of the pass; zero is never
	stepDeadline time.Time // the end of the step
	pause        time.Duration

	// unfinished are the positions, by table, at which walks ended before their end.
	unfinished map[string][]string

	// unarchived is the first day whose bodies wait for the archive; zero if none does.
	unarchived time.Time

	// withoutArchive keeps all bodies, because there is an archive that this process does not know.
	withoutArchive bool
}

// errTimeIsUp means that the budget or the context ended; the next pass does the rest.
var errTimeIsUp = errors.New("the pass is over")

// The lock is the session's, so that it is released if the connection is lost.
const (
	schemaKey = `hashtext(coalesce(current_schema(), ''))`
	tryLock   = `SELECT pg_try_advisory_lock($1::int, ` + schemaKey + `)`
)

// Every statement of a pass finds its rows through an index. A lost deletion
// comes back as a row that is due, so its commits need not wait for the disk; a
// dropped table's does by itself.
const prepareSession = `
SELECT set_config('synchronous_commit', 'off', false), set_config('lock_timeout', '1s', false),
    set_config('statement_timeout', '20s', false), set_config('idle_in_transaction_session_timeout', '60s', false),
    set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('plan_cache_mode', 'force_generic_plan', false), set_config('application_name', 'oncegate prune', false)`

// Run makes one pass: bodies first, because they are most of the bytes, then the rows that refer to them, each
// in bounded batches. If another pass is running, here or in another process, it does nothing and says so. It
// stops between two batches when ctx ends. Every batch is safe without the lock, which only saves work.
func (p *Pruner) Run(ctx context.Context, run Run) (Report, error) {
	if err := p.checkRun(&run); err != nil {
		return Report{}, err
	}
	s := &pass{Pruner: p, run: run, report: Report{Rows: map[string]int64{}, Partitions: []string{}}, unfinished: map[string][]string{}}
	began := p.cfg.Now()
	if p.cfg.Budget > 0 {
		s.passDeadline = began.Add(p.cfg.Budget)
	}
	acquired, err := p.cfg.Pool.Acquire(ctx)
	if err != nil {
		return s.report, fmt.Errorf("pruning: getting a connection: %w", err)
	}
	// The connection never returns to the pool: its settings and its lock end with it.
	s.conn = acquired.Hijack()
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		// The server notices a closed connection a little later. The next caller must not find the lock taken
		// by a pass that is over.
		_, _ = s.conn.Exec(stop, `SELECT pg_advisory_unlock_all()`)
		_ = s.conn.Close(stop)
	}()
	if err := s.conn.QueryRow(ctx, tryLock, advisory.Prune).Scan(&s.report.Obtained); err != nil {
		return s.report, fmt.Errorf("pruning: asking for the lock: %w", err)
	}
	if !s.report.Obtained {
		attrs := advisory.Holder(ctx, s.conn, advisory.Prune, schemaKey).Attrs()
		p.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "no pass of prune: another session has its lock, usually another pass", attrs...)
		return s.report, nil
	}
	if _, err := s.conn.Exec(ctx, prepareSession); err != nil {
		return s.report, fmt.Errorf("pruning: %w", err)
	}
	if s.retention, err = readRetention(ctx, s.conn); err != nil {
		return s.report, fmt.Errorf("pruning: %w", err)
	}
	err = s.runSteps(ctx)
	for errors.Is(err, errTimeIsUp) && s.hasTimeLeft(ctx) {
		err = s.runSteps(ctx) // a step that had too little time gets some more
	}
	s.report.Complete = err == nil && len(s.report.Contended) == 0 && s.report.Archived.Error == ""
	if errors.Is(err, errTimeIsUp) {
		err = nil
	}
	s.report.Elapsed = p.cfg.Now().Sub(began)
	s.report.Busy = s.report.Elapsed - s.pause
	if err == nil && len(run.Include) > 0 {
		err = s.audit(context.WithoutCancel(ctx))
	}
	if err == nil {
		err = s.record(context.WithoutCancel(ctx), began)
	}
	if err != nil {
		return s.report, fmt.Errorf("pruning: %w", err)
	}
	return s.report, nil
}

// ErrInclude is returned for an Include that prune does not know.
var ErrInclude = errors.New("not something prune can include: dead, indeterminate, held, replay")

// checkInclude returns [ErrInclude] for an unknown name.
func (r *Run) checkInclude() error {
	for _, name := range r.Include {
		if !slices.Contains(Prunables(), name) {
			return fmt.Errorf("%q: %w", string(name), ErrInclude)
		}
	}
	return nil
}

func (p *Pruner) checkRun(run *Run) error {
	if err := run.checkInclude(); err != nil || len(run.Include) == 0 {
		return err
	}
	if p.cfg.Effects == nil {
		return errors.New("pruning what is at rest needs the store of effects, which settles it")
	}
	return inbox.CheckExplanation(run.Actor, run.Reason)
}

// runSteps runs one step after the other: rows are removed after the rows that refer to them. Each step may use
// its share of the remaining budget, so that a long step does not starve the later ones.
func (s *pass) runSteps(ctx context.Context) error {
	steps := []func(context.Context) error{
		s.archiveLeftovers, s.bodies, s.keptBodies, s.conflicts, s.settleIncluded, s.keys, s.effects, s.events, s.streams, s.refusals, s.agentSessions, s.logins, s.apiRequests, s.replays,
		s.suppressions, s.statistics, s.runs, s.audits,
	}
	ends, short := s.passDeadline, false
	clear(s.unfinished)
	for i, step := range steps {
		if !ends.IsZero() {
			left := ends.Sub(s.cfg.Now())
			s.stepDeadline = s.cfg.Now().Add(left / time.Duration(len(steps)-i))
		}
		err := step(ctx)
		switch {
		case errors.Is(err, errTimeIsUp) && ctx.Err() == nil:
			short = true
		case err != nil:
			return err
		}
	}
	if short {
		return errTimeIsUp
	}
	return nil
}

// hasTimeLeft reports whether the budget allows another round, and locks did not end the last one.
func (s *pass) hasTimeLeft(ctx context.Context) bool {
	return ctx.Err() == nil && len(s.report.Contended) == 0 && (s.passDeadline.IsZero() || s.passDeadline.Sub(s.cfg.Now()) > s.cfg.Budget/10)
}

// timeIsUp reports whether the step has to end.
func (s *pass) timeIsUp(ctx context.Context) bool {
	return ctx.Err() != nil || !s.stepDeadline.IsZero() && !s.cfg.Now().Before(s.stepDeadline)
}

// audit records who included rows that prune otherwise keeps.
func (s *pass) audit(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = on`); err != nil {
			return err
		}
		return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
			At: s.retention.now, Actor: s.run.Actor, Action: inbox.AuditPrune, Object: "prune", Reason: s.run.Reason,
			Before: map[string]any{"include": s.run.Include}, After: map[string]any{"rows": s.report.Rows},
		})
	})
}
