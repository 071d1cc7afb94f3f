package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/advisory"
)

// AuditReconcile: a sender was asked which events there were, and those that never arrived were admitted
// or asked for again. Stored: never change.
const AuditReconcile inbox.AuditAction = "reconcile"

var (
	// ErrRunning means that another run of the source is under way.
	ErrRunning = errors.New("another run is under way")

	// ErrNoneInterrupted means that the last run of the source is complete, or that there was none.
	ErrNoneInterrupted = errors.New("no run was interrupted")

	// ErrPeriod means that the period ends before it begins.
	ErrPeriod = errors.New("the period ends before it begins")

	// ErrEndless means that the sender's list does not end: it repeats a page, or has too many.
	ErrEndless = errors.New("the sender's list does not end")
)

const (
	// maxPages is how many pages one run reads.
	maxPages = 10_000

	// maxEmpty is how many pages without an event may follow each other.
	maxEmpty = 10

	// maxSeen is how many missing events a run remembers, to count each once.
	maxSeen = 100_000
)

// Run says which events a sender is asked for. Pool, Lister, Source and Name are required; without DryRun
// also Actor and Reason, and Gate unless the sender delivers again.
type Run struct {
	Pool   *pgxpool.Pool
	Gate   inbox.Accepter
	Lister Lister
	Logger *slog.Logger // nil discards

	// Source is the row of the source and Name its name.
	Source int32
	Name   string

	// NewestFirst says that the list begins with the newest event. The run then ends at the first page
	// whose last event is older than Since.
	NewestFirst bool

	// Since and Until are the period. Resume takes both from the last run, which must have been
	// interrupted, and continues with its next page.
	Since, Until time.Time
	Resume       bool

	// DryRun admits nothing and writes nothing. Cursor is the Next of an earlier part of it.
	DryRun bool
	Cursor string

	// Scheduled says that the schedule started the run. It is then audited only if it found something.
	Scheduled bool

	// Actor and Reason go into the audit.
	Actor, Reason string

	// Budget ends the run between two pages; 0 is no limit.
	Budget time.Duration

	// Progress is called after each page; it may be nil.
	Progress func(r Report)

	// Now defaults to time.Now.
	Now func() time.Time

	seen        map[string]bool // the missing events
	first, last string          // ids of the page before
	empty       int             // pages without an event, one after the other
}

// The lock is the session's, so that it is released if the connection is lost.
const (
	sourceKey = `hashtext(coalesce(current_schema(), '') || '/' || $2::int)`
	tryLock   = `SELECT pg_try_advisory_lock($1::int, ` + sourceKey + `)`
)

// Do reads the list and admits the missing events, until the last page, the end of the budget or of ctx. Only
// one run of a source works at once: another one gets [ErrRunning]. On an error the report covers what was
// done until then, and [Run.Resume] continues after it.
func (r Run) Do(ctx context.Context) (Report, error) {
	if err := r.check(); err != nil {
		return Report{}, err
	}
	if r.DryRun {
		report := Report{Since: r.Since, Until: r.Until, Next: r.Cursor}
		err := r.pages(ctx, &report, func(context.Context) error { return nil })
		return report, err
	}
	acquired, err := r.Pool.Acquire(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("reconciling %s: getting a connection: %w", r.Name, err)
	}
	// The connection never returns to the pool: its lock ends with it.
	conn := acquired.Hijack()
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _ = conn.Exec(stop, `SELECT pg_advisory_unlock_all()`)
		_ = conn.Close(stop)
	}()
	var obtained bool
	if err := conn.QueryRow(ctx, tryLock, advisory.Reconcile, r.Source).Scan(&obtained); err != nil {
		return Report{}, fmt.Errorf("reconciling %s: asking for the lock: %w", r.Name, err)
	}
	if !obtained {
		r.Logger.LogAttrs(ctx, slog.LevelInfo, "no reconciliation: another session has the lock of the source, usually another run",
			append([]slog.Attr{slog.String("source", r.Name)}, advisory.Holder(ctx, conn, advisory.Reconcile, sourceKey, r.Source).Attrs()...)...)
		return Report{}, fmt.Errorf("reconciling %s: %w", r.Name, ErrRunning)
	}
	report, err := r.begin(ctx, conn)
	if err != nil {
		return report, err
	}
	before := report.Counts
	failed := r.pages(ctx, &report, func(ctx context.Context) error { return r.note(ctx, conn, &report, time.Time{}, "") })
	return report, errors.Join(failed, r.end(context.WithoutCancel(ctx), conn, &report, before, failed))
}

func (r *Run) check() error {
	if r.Pool == nil || r.Lister == nil || r.Source == 0 || r.Name == "" {
		return errors.New("reconciling: Pool, Lister, Source and Name are required")
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	r.seen = map[string]bool{}
	if !r.Resume && !r.Since.Before(r.Until) {
		return fmt.Errorf("reconciling %s: %w", r.Name, ErrPeriod)
	}
	if r.DryRun {
		return nil
	}
	if err := inbox.CheckExplanation(r.Actor, r.Reason); err != nil {
		return fmt.Errorf("reconciling %s: %w", r.Name, err)
	}
	return nil
}

// begin writes the row of the run, or reads the row of the one that it continues.
func (r *Run) begin(ctx context.Context, conn *pgx.Conn) (Report, error) {
	actor := r.Actor
	if r.Scheduled {
		actor = ""
	}
	if !r.Resume {
		r.Since, r.Until = r.Since.UTC().Truncate(time.Second), r.Until.UTC().Truncate(time.Second)
		if _, err := conn.Exec(ctx, beginRun, r.Source, r.Since, r.Until, r.Now(), actor); err != nil {
			return Report{}, fmt.Errorf("reconciling %s: %w", r.Name, err)
		}
		return Report{Since: r.Since, Until: r.Until}, nil
	}
	last, err := Read(ctx, conn, r.Source)
	if err != nil {
		return Report{}, err
	}
	if last == nil || last.Complete {
		return Report{}, fmt.Errorf("reconciling %s: %w", r.Name, ErrNoneInterrupted)
	}
	if _, err := conn.Exec(ctx, resumeRun, r.Source, actor, r.Now()); err != nil {
		return Report{}, fmt.Errorf("reconciling %s: %w", r.Name, err)
	}
	r.Since, r.Until = last.Since, last.Until
	return last.Report, nil
}

// end writes the result of the run, and an entry of the audit. The counts of the entry include what an
// interrupted run had done before.
func (r *Run) end(ctx context.Context, conn *pgx.Conn, report *Report, before Counts, failed error) error {
	failure := ""
	if failed != nil && !errors.Is(failed, context.Canceled) {
		failure = row.ErrorText(failed)
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := r.note(ctx, tx, report, r.Now(), failure); err != nil {
			return err
		}
		if r.Scheduled && report.Admitted == before.Admitted && report.Redelivered == before.Redelivered {
			return nil
		}
		return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
			At: r.Now(), Actor: r.Actor, Action: AuditReconcile, Object: "source/" + r.Name, Reason: r.Reason, After: *report,
		})
	})
	if err != nil {
		return fmt.Errorf("noting the end of the reconciliation of %s: %w", r.Name, err)
	}
	return nil
}

// pages reads pages from report.Next on. note is called after each.
func (r *Run) pages(ctx context.Context, report *Report, note func(ctx context.Context) error) error {
	began := r.Now()
	for n := 1; ; n++ {
		page, err := r.Lister.Page(ctx, r.Since, r.Until, report.Next)
		if err != nil {
			return fmt.Errorf("reconciling %s: %w", r.Name, err)
		}
		if err := r.endless(page, report.Next, n); err != nil {
			return fmt.Errorf("reconciling %s: %w", r.Name, err)
		}
		if err := r.page(ctx, page, &report.Counts); err != nil {
			return fmt.Errorf("reconciling %s: %w", r.Name, err)
		}
		report.Pages++
		report.Next = page.Next
		if report.Complete = page.Next == "" || r.NewestFirst && r.past(page); report.Complete {
			report.Next = ""
		}
		if err := note(ctx); err != nil {
			return err
		}
		if r.Progress != nil {
			r.Progress(*report)
		}
		if report.Complete || r.Budget > 0 && r.Now().Sub(began) >= r.Budget {
			return nil
		}
	}
}

// past reports whether a list that begins with the newest event has left the period.
func (r *Run) past(p *Page) bool {
	if len(p.Events) == 0 {
		return false
	}
	created := p.Events[len(p.Events)-1].Created
	return !created.IsZero() && created.Before(r.Since)
}

// endless refuses a list that would never end.
func (r *Run) endless(p *Page, cursor string, n int) error {
	if p.Next == "" {
		return nil
	}
	if len(p.Events) == 0 {
		r.empty++
	} else {
		first, last := p.Events[0].ID, p.Events[len(p.Events)-1].ID
		if first != "" && first == r.first && last == r.last {
			return fmt.Errorf("%w: it repeats a page", ErrEndless)
		}
		r.first, r.last, r.empty = first, last, 0
	}
	switch {
	case p.Next == cursor:
		return fmt.Errorf("%w: the next page is the same one", ErrEndless)
	case r.empty > maxEmpty:
		return fmt.Errorf("%w: %d pages without an event follow each other", ErrEndless, r.empty)
	case n >= maxPages:
		return fmt.Errorf("%w: it has more than %d pages; ask for a shorter period", ErrEndless, maxPages)
	}
	return nil
}
