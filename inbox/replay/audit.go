package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// RunStep is one effect of a run beside what today's configuration would send for it. Its JSON is
// an interface: names are added, never changed.
type RunStep struct {
	Event   inbox.ID `json:"event"`
	EventID string   `json:"event_id"`

	// Operation and Key are the parts of EventID behind the credential.
	Operation string `json:"operation"`
	Key       string `json:"key"`

	// Effect and Route are zero for an event that no route took.
	Effect inbox.ID          `json:"effect,omitzero"`
	Route  string            `json:"route,omitempty"`
	State  inbox.EffectState `json:"state,omitempty"`

	// Match: the same request would be sent today, or today nothing would be sent either. Verdict
	// says in which way not.
	Match   bool        `json:"match"`
	Verdict StepVerdict `json:"verdict"`
	// Why says what the verdict is based on.
	Why []string `json:"why,omitempty"`

	// Original is what was recorded as sent, Today what would be sent now.
	Original *DiffRequest `json:"original,omitempty"`
	Today    *DiffRequest `json:"today,omitempty"`

	// Changes are those of the body, at most [MaxChanges].
	Changes []Change `json:"changes,omitempty"`

	// Result compares the stored result with what the target says; nil if it was not asked.
	Result *StepResult `json:"result,omitempty"`
}

// StepVerdict says how a step compares.
type StepVerdict string

// The verdicts of steps.
const (
	// StepSame: the same request.
	StepSame StepVerdict = "same"
	// StepOtherTarget: another target, method or address.
	StepOtherTarget StepVerdict = "other_target"
	// StepOtherBody: another body or, in a database, another statement.
	StepOtherBody StepVerdict = "other_body"
	// StepOtherKey: the route's recipe makes another key.
	StepOtherKey StepVerdict = "other_key"
	// StepNoRoute: no request any more: the route is gone, no longer takes the type, or its condition is false.
	StepNoRoute StepVerdict = "no_route"
	// StepNewRequest: a request today, where none was made.
	StepNewRequest StepVerdict = "new_request"
	// StepCannotRender: today's configuration cannot make the request.
	StepCannotRender StepVerdict = "cannot_render"
	// StepGone: the body was pruned or erased, or cannot be opened, so that nothing can be compared.
	StepGone StepVerdict = "gone"
)

// StepResult is a stored result beside what the target says: its probe, its dry run, or both.
type StepResult struct {
	// Stored is the state that Oncegate has, with the target's code.
	Stored string `json:"stored"`
	// Target is what the probe said: done, absent, unknown, or "no probe"; with its status.
	Target string `json:"target"`
	// Match is absent where the two cannot be compared.
	Match *bool `json:"match,omitempty"`
	// DryRun is nil for a step whose target has none.
	DryRun *StepDryRun `json:"dry_run,omitempty"`
}

// StepDryRun is what a target says that it would do today.
type StepDryRun struct {
	// Outcome is accepted, refused or unknown; or "not asked", for Why.
	Outcome string `json:"outcome"`
	// Code is the target's status, if it answered.
	Code string `json:"code,omitempty"`
	// Why says why nothing is known.
	Why string `json:"why,omitempty"`
	// Match is absent where the stored result and the answer cannot be compared.
	Match *bool `json:"match,omitempty"`
	// Changes are those from the stored reply to the answer, at most [MaxChanges].
	Changes []Change `json:"changes,omitempty"`
}

func (r *StepResult) differs() bool {
	differs := func(match *bool) bool { return match != nil && !*match }
	return r != nil && (differs(r.Match) || r.DryRun != nil && differs(r.DryRun.Match))
}

// Comparer says what today's configuration would send for each effect of an event. It has no
// way to send it. The wiring implements it.
type Comparer interface {
	Compare(ctx context.Context, r *RecordedEvent) ([]RunStep, error)
}

// AuditConfig configures an [Auditor]. Pool and Comparer are required.
type AuditConfig struct {
	// Pool reads, one connection and in transactions that are read-only.
	Pool     *pgxpool.Pool
	Comparer Comparer

	// Keyring opens bodies; nil where none is sealed.
	Keyring *seal.Keyring

	// Now is the clock of [AuditRequest.Within]. It defaults to time.Now.
	Now func() time.Time
}

// Auditor compares the steps of a run with today's configuration. It is no [Store]: it has no
// effects to settle and no queue, and what it makes is no plan, has no digest and is stored nowhere,
// so that there is nothing that could be run.
type Auditor struct{ cfg AuditConfig }

// NewAuditor makes an Auditor, or reports what is wrong with cfg.
func NewAuditor(cfg AuditConfig) (*Auditor, error) {
	if cfg.Pool == nil || cfg.Comparer == nil {
		return nil, errors.New("an audit needs a pool and a comparer")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Auditor{cfg: cfg}, nil
}

// MaxAudit bounds how many events one page of an audit compares.
const MaxAudit = 1000

// AuditRequest asks for a page of an audit. A Run with its Source, or a Label, is required; with both, an event must fit both.
type AuditRequest struct {
	// Source is the name of a source of operations, or of any source where there is only a Label. Then empty is every source.
	Source string

	// Run is the first part of the keys, behind credential and operation, as recipes write it:
	// escaped. It is compared as a whole: run 42 is not the beginning of run 421.
	Run string

	// Label is what the events have.
	Label inbox.Label

	// Tenant is whose events they are; empty is everybody's.
	Tenant string

	// Since leaves out what was received before.
	Since time.Time

	// After is the last event that the page before this one looked at; zero begins with the first.
	After inbox.ID

	// Limit is how many events are compared; 0 is [MaxAudit], which is the most.
	Limit int

	// Within is how long the page may take; 0 is as long as it needs. It ends with the chunk of events in which the time runs out.
	Within time.Duration

	// Results gives the comparer what was kept of the targets' replies.
	Results bool
}

// Audit is one page of an audit: the steps of its events, in the order in which these were received.
type Audit struct {
	Source string    `json:"source"`
	Run    string    `json:"run"`
	Label  string    `json:"label,omitempty"`
	Steps  []RunStep `json:"steps"`

	// Matching counts the steps that match, results included.
	Matching int `json:"matching"`

	// Next is the last event that was looked at if there may be more.
	Next *inbox.ID `json:"next,omitempty"`

	// InTime is false if the page ended because its time ran out.
	InTime bool `json:"-"`
}

// AllMatch reports whether every step of the run matches, results included. It is false while there
// are more pages, and for a run of which nothing is known.
func (a *Audit) AllMatch() bool {
	return a.Next == nil && len(a.Steps) > 0 && a.Matching == len(a.Steps)
}

// CountMatching counts the steps that match. Call it again after adding results to the steps.
func (a *Audit) CountMatching() {
	a.Matching = 0
	for i := range a.Steps {
		if a.Steps[i].Match && !a.Steps[i].Result.differs() {
			a.Matching++
		}
	}
}

// All effects of the events but the items of lists, which are compared with their list.
const readRunEffects = recordedEffectColumns + `
WHERE e.event_id = ANY ($1::uuid[]) AND e.item = 0
ORDER BY e.event_id, e.route_id`

// What was kept of the replies to the effects that are done. A duplicate has its owner's, and was not sent.
const readRunResults = `
SELECT e.id, e.result, e.result_key_id
FROM effect e
WHERE e.event_id = ANY ($1::uuid[]) AND e.item = 0 AND e.state = 'done' AND e.result IS NOT NULL`

// Audit compares one page of a run. It changes nothing: all that it reads, it reads in transactions in which PostgreSQL
// refuses to write. None of them is open while it compares, which may take as long as the targets do. It keeps
// the steps of the page and one chunk of its events in memory.
func (a *Auditor) Audit(ctx context.Context, ask AuditRequest) (*Audit, error) {
	out, err := a.audit(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("comparing a run: %w", err)
	}
	return out, nil
}

func (a *Auditor) audit(ctx context.Context, ask AuditRequest) (*Audit, error) {
	if ask.Label == (inbox.Label{}) && (ask.Run == "" || ask.Source == "") {
		return nil, fmt.Errorf("%w: it needs a run with its source, or a label", ErrScope)
	}
	if ask.Limit <= 0 || ask.Limit > MaxAudit {
		ask.Limit = MaxAudit
	}
	out := &Audit{Source: ask.Source, Run: ask.Run, Steps: []RunStep{}}
	if ask.Label != (inbox.Label{}) {
		out.Label = ask.Label.Name + "=" + ask.Label.Value
	}
	deadline := time.Time{}
	if ask.Within > 0 {
		deadline = a.cfg.Now().Add(ask.Within)
	}
	found, err := a.findSteps(ctx, &ask, deadline)
	if err != nil {
		return nil, err
	}
	if err := a.compareAll(ctx, found, ask.Results, deadline, out); err != nil {
		return nil, err
	}
	out.CountMatching()
	return out, nil
}

// late reports whether there was a time, and it has run out.
func (a *Auditor) late(deadline time.Time) bool {
	return !deadline.IsZero() && !a.cfg.Now().Before(deadline)
}

// read runs f in a transaction that cannot write.
func (a *Auditor) read(ctx context.Context, f func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, a.cfg.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead}, f)
}

// compareAll compares the events that were found, chunk by chunk, and says where the next page begins.
func (a *Auditor) compareAll(ctx context.Context, found foundSteps, results bool, deadline time.Time, out *Audit) error {
	out.Next, out.InTime = found.next, !found.late
	var chunks [][]inbox.ID
	err := a.read(ctx, func(tx pgx.Tx) (err error) {
		chunks, err = recordedChunks(ctx, tx, found.events, nil)
		return err
	})
	if err != nil {
		return err
	}
	for i, chunk := range chunks {
		if i > 0 && a.late(deadline) {
			out.Next, out.InTime = &chunks[i-1][len(chunks[i-1])-1], false
			return nil
		}
		var recorded []*RecordedEvent
		err := a.read(ctx, func(tx pgx.Tx) (err error) {
			recorded, err = a.recorded(ctx, tx, chunk, results)
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range recorded {
			steps, err := a.cfg.Comparer.Compare(ctx, r)
			if err != nil {
				return err
			}
			out.Steps = append(out.Steps, steps...)
		}
	}
	return nil
}

// recorded reads a chunk of events with their effects and, if they are asked for, what was kept of the replies.
func (a *Auditor) recorded(ctx context.Context, tx pgx.Tx, events []inbox.ID, results bool) ([]*RecordedEvent, error) {
	rows, err := tx.Query(ctx, readRunEffects, events)
	if err != nil {
		return nil, err
	}
	effects, err := collectRecordedEffects(rows, a.cfg.Keyring, len(events))
	if err != nil {
		return nil, err
	}
	if results {
		if err := a.readResults(ctx, tx, events, effects); err != nil {
			return nil, err
		}
	}
	recorded, err := recordedEvents(ctx, tx, a.cfg.Keyring, events)
	for _, r := range recorded {
		r.Effects = effects[r.Event.ID]
	}
	return recorded, err
}

// readResults adds what was kept of the replies. What cannot be opened stays away: then there is nothing to compare with.
func (a *Auditor) readResults(ctx context.Context, tx row.Querier, events []inbox.ID, recorded map[inbox.ID][]RecordedEffect) error {
	rows, err := tx.Query(ctx, readRunResults, events)
	if err != nil {
		return err
	}
	var id inbox.ID
	var stored []byte
	var keyID *int32
	results := map[inbox.ID][]byte{}
	_, err = pgx.ForEachRow(rows, []any{&id, &stored, &keyID}, func() error {
		if opened, err := a.cfg.Keyring.Open(place.Result(id), keyID, stored); err == nil {
			results[id] = opened
		}
		return nil
	})
	for _, effects := range recorded {
		for i := range effects {
			effects[i].Result = results[effects[i].Effect]
		}
	}
	return err
}
