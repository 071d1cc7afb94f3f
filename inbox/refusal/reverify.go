package refusal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
)

// AuditReverify: kept refusals were verified with today's secrets, and those that
// verified admitted. Stored: never change.
const AuditReverify inbox.AuditAction = "refusals.reverify"

// ErrStillRefused is wrapped by the error that [Reverify.Verify] returns for a refusal
// that still does not verify.
var ErrStillRefused = errors.New("refused again")

// ErrUndecided is wrapped by the error that [Reverify.Verify] returns for a refusal
// whose key cannot be fetched now, so that it cannot be verified.
var ErrUndecided = errors.New("its key cannot be got now")

// Reverify says which kept refusals are verified once more. Pool, Source and
// Verify are required; without DryRun also Gate, Actor and Reason.
type Reverify struct {
	Pool *pgxpool.Pool
	Gate inbox.Accepter

	// Keyring opens refusals that are sealed; nil where none is.
	Keyring *seal.Keyring

	// Source is the row of the source and Name its name.
	Source int32
	Name   string

	// Cause narrows to one cause, Since to those received since; empty does not.
	Cause string
	Since time.Time

	// After begins after a refusal, and Most ends after that many; zero values do
	// neither.
	After inbox.ID
	Most  int

	// Verify makes the admission of a refusal whose signature verifies today, at the
	// time at which it was received, or wraps [ErrStillRefused].
	Verify func(r *read.RefusalDetail) (*inbox.Admission, error)

	// DryRun admits nothing and writes nothing.
	DryRun bool

	// Actor and Reason go into the audit.
	Actor, Reason string

	// Progress is called with the counts now and then; it may be nil.
	Progress func(r ReverifyReport)

	// Page is how many refusals one transaction removes. It defaults to 100.
	Page int

	seen map[string]bool // by event id, in a dry run
}

// ReverifyReport counts refusals. In a dry run Recorded and Duplicates predict the
// result of admitting them.
type ReverifyReport struct {
	// Examined are the kept refusals that were read. Refused of them still do not
	// verify, Unreadable are sealed under a lost key, and for Undecided the sender's
	// key could not be fetched; all these stay.
	Examined   int `json:"examined"`
	Refused    int `json:"refused"`
	Unreadable int `json:"unreadable,omitempty"`
	Undecided  int `json:"undecided,omitempty"`

	// Verified are the others. Each is one delivery, of one or more events.
	Verified int `json:"verified"`

	// Recorded, Duplicates, Conflicts and Unusable count events.
	Recorded   int `json:"recorded"`
	Duplicates int `json:"duplicates"`
	Conflicts  int `json:"conflicts"`
	Unusable   int `json:"unusable"`

	// Next is where to continue after a run that ended because of its Most; nil if it
	// read all.
	Next *inbox.ID `json:"next,omitempty"`
}

// Plus returns the sum of two reports, where other is of a run that continued this one.
func (r ReverifyReport) Plus(other ReverifyReport) ReverifyReport {
	return ReverifyReport{
		Examined: r.Examined + other.Examined, Refused: r.Refused + other.Refused, Unreadable: r.Unreadable + other.Unreadable,
		Undecided: r.Undecided + other.Undecided, Verified: r.Verified + other.Verified, Recorded: r.Recorded + other.Recorded,
		Duplicates: r.Duplicates + other.Duplicates, Conflicts: r.Conflicts + other.Conflicts, Unusable: r.Unusable + other.Unusable, Next: other.Next,
	}
}

// In the order of receipt, so that events are admitted in that order. The page has only
// ids: bodies are read one at a time.
const reverifyPage = `
SELECT id FROM refusal
WHERE source_id = $1 AND whole AND ($2::uuid IS NULL OR id > $2) AND ($3::text = '' OR cause = $3) AND received_at >= $4
ORDER BY id
LIMIT $5`

// Run verifies the refusals and admits those that verify through the gate, one after
// the other. It removes a refusal only after the gate has answered for it. If a run is
// interrupted, the next one continues, and the gate recognises what was admitted
// before. On an error the report covers what was done until then.
func (r Reverify) Run(ctx context.Context) (ReverifyReport, error) {
	var total ReverifyReport
	if r.Pool == nil || r.Verify == nil || r.Source == 0 || !r.DryRun && r.Gate == nil {
		return total, errors.New("reverifying refusals: Pool, Source, Verify and Gate are required")
	}
	if !r.DryRun {
		if err := inbox.CheckExplanation(r.Actor, r.Reason); err != nil {
			return total, fmt.Errorf("reverifying refusals: %w", err)
		}
	}
	if r.Page == 0 {
		r.Page = 100
	}
	r.seen = map[string]bool{}
	for after, examined := r.After, 0; ; {
		ids, err := r.page(ctx, after)
		if err != nil || len(ids) == 0 {
			return total, err
		}
		after = ids[len(ids)-1]
		err = r.readmit(ctx, ids, &total)
		if r.Progress != nil {
			r.Progress(total)
		}
		if err != nil {
			return total, err
		}
		if examined += len(ids); r.Most > 0 && examined >= r.Most {
			total.Next = &after
			return total, nil
		}
	}
}

func (r *Reverify) page(ctx context.Context, after inbox.ID) ([]inbox.ID, error) {
	since := r.Since
	if since.IsZero() {
		since = time.Unix(0, 0)
	}
	rows, err := r.Pool.Query(ctx, reverifyPage, r.Source, after, r.Cause, since, r.Page)
	if err != nil {
		return nil, fmt.Errorf("reading refusals of %s: %w", r.Name, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
	if err != nil {
		return nil, fmt.Errorf("reading refusals of %s: %w", r.Name, err)
	}
	return ids, nil
}

// readmit processes one page: first the gate admits, then the refusals are removed,
// with an entry in the audit. An error of the gate does not lose what it admitted
// before.
func (r *Reverify) readmit(ctx context.Context, ids []inbox.ID, total *ReverifyReport) error {
	lister := read.NewLister(r.Pool).WithKeyring(r.Keyring)
	var page ReverifyReport
	var admitted []inbox.ID
	var failed error
	for _, id := range ids {
		taken, err := r.reverifyOne(ctx, lister, id, &page)
		if err != nil {
			failed = err
			break
		}
		if taken {
			admitted = append(admitted, id)
		}
	}
	total.add(page)
	if len(admitted) == 0 || r.DryRun {
		return failed
	}
	err := pgx.BeginFunc(context.WithoutCancel(ctx), r.Pool, func(tx pgx.Tx) error {
		return r.deleteAdmittedTx(ctx, tx, admitted, page)
	})
	if err != nil {
		err = fmt.Errorf("taking away refusals of %s that were admitted: %w", r.Name, err)
	}
	return errors.Join(failed, err)
}

// reverifyOne verifies one refusal and admits it; taken is false if it stays.
func (r *Reverify) reverifyOne(ctx context.Context, lister *read.Lister, id inbox.ID, page *ReverifyReport) (taken bool, err error) {
	refusal, err := lister.Refusal(ctx, id)
	switch {
	case errors.Is(err, inbox.ErrNotFound):
		return false, nil // a newer one pushed it out, or another run removed it
	case errors.Is(err, seal.ErrLost), errors.Is(err, seal.ErrDamaged):
		page.Examined++
		page.Unreadable++
		return false, nil
	case err != nil:
		return false, err
	}
	page.Examined++
	admission, err := r.Verify(refusal)
	switch {
	case errors.Is(err, ErrStillRefused):
		page.Refused++
		return false, nil
	case errors.Is(err, ErrUndecided):
		page.Undecided++
		return false, nil
	case err != nil:
		return false, fmt.Errorf("verifying refusal %s: %w", id, err)
	}
	page.Verified++
	if r.DryRun {
		return false, r.predict(ctx, admission, page)
	}
	if len(admission.Events) == 0 {
		return true, nil // an empty batch, as the receiver acknowledges one
	}
	receipt, err := r.Gate.Accept(ctx, admission)
	if err != nil {
		page.Verified--
		page.Examined--
		return false, fmt.Errorf("admitting refusal %s: %w", id, err)
	}
	for _, item := range receipt.Items {
		if item.Unusable {
			page.Unusable++
		}
		switch item.Outcome {
		case inbox.Recorded:
			page.Recorded++
		case inbox.Duplicate:
			page.Duplicates++
		case inbox.Conflict:
			page.Conflicts++
		}
	}
	return true, nil
}

const countKnown = `SELECT count(*) FROM inbox_event WHERE source_id = $1 AND event_id = ANY ($2::text[])`

// predict counts which events of an admission the gate knows already, or will know from
// an earlier refusal of this run, because senders repeat refused deliveries.
func (r *Reverify) predict(ctx context.Context, a *inbox.Admission, page *ReverifyReport) error {
	secret, err := inbox.ReadInstallationSecret(ctx, r.Pool, r.Keyring)
	if err != nil {
		return err
	}
	var ids []string
	events := 0
	for i := range a.Events {
		e := &a.Events[i]
		id, former := e.EventID, ""
		if e.Unusable != "" {
			page.Unusable++
			sum := sha256.Sum256(a.Body[e.Offset : e.Offset+e.Length])
			id = inbox.UnusableID(secret.StoredHash(sum[:]))
			former = inbox.UnusableID(sum[:]) // of before there was a keyring
		}
		if r.seen[id] {
			page.Duplicates++
			continue
		}
		r.seen[id] = true // at most as many as one source keeps refusals
		events++
		ids = append(ids, id)
		if former != "" && former != id {
			ids = append(ids, former)
		}
	}
	var known int
	if err := r.Pool.QueryRow(ctx, countKnown, r.Source, ids).Scan(&known); err != nil {
		return fmt.Errorf("looking for events of %s: %w", r.Name, err)
	}
	page.Duplicates += known
	page.Recorded += events - known
	return nil
}

const deleteReadmitted = `DELETE FROM refusal WHERE id = ANY ($1::uuid[])`

func (r *Reverify) deleteAdmittedTx(ctx context.Context, tx pgx.Tx, ids []inbox.ID, page ReverifyReport) error {
	ctx = context.WithoutCancel(ctx) // the gate has recorded them, so the removal must finish
	if _, err := tx.Exec(ctx, deleteReadmitted, ids); err != nil {
		return err
	}
	var now time.Time
	if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&now); err != nil {
		return err
	}
	return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: now, Actor: r.Actor, Action: AuditReverify, Object: "source/" + r.Name, Reason: r.Reason,
		Before: map[string]int{"refusals": len(ids)}, After: page,
	})
}

func (t *ReverifyReport) add(p ReverifyReport) {
	t.Examined += p.Examined
	t.Refused += p.Refused
	t.Unreadable += p.Unreadable
	t.Undecided += p.Undecided
	t.Verified += p.Verified
	t.Recorded += p.Recorded
	t.Duplicates += p.Duplicates
	t.Conflicts += p.Conflicts
	t.Unusable += p.Unusable
}
