package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// RunStep compares one effect of a run with the request that today's configuration would send. Its
// JSON is an interface: names are added, never changed.
type RunStep struct {
	Event   inbox.ID `json:"event"`
	EventID string   `json:"event_id"`

	// Operation and Key are the parts of EventID after the credential.
	Operation string `json:"operation"`
	Key       string `json:"key"`

	// Effect and Route are zero for an event that no route took.
	Effect inbox.ID          `json:"effect,omitzero"`
	Route  string            `json:"route,omitempty"`
	State  inbox.EffectState `json:"state,omitempty"`

	// Match: the same request would be sent today, or none was sent and none would be. Verdict
	// says what differs.
	Match   bool        `json:"match"`
	Verdict StepVerdict `json:"verdict"`
	// Why lists the reasons for the verdict.
	Why []string `json:"why,omitempty" shows:"content"`

	// Original is the recorded request, and Today the request that would be sent now.
	Original *DiffSide `json:"original,omitempty" shows:"content"`
	Today    *DiffSide `json:"today,omitempty" shows:"content"`

	// Changes are the changes of the body, at most [MaxChanges].
	Changes []Change `json:"changes,omitempty" shows:"content"`

	// Result compares the stored result with the target's answers; nil if the target was not asked.
	Result *StepResult `json:"result,omitempty"`
}

// StepVerdict is the result of comparing a step.
type StepVerdict string

// The verdicts of steps.
const (
	// StepSame: the same request.
	StepSame StepVerdict = "same"
	// StepOtherTarget: another target, method or address.
	StepOtherTarget StepVerdict = "other_target"
	// StepOtherBody: another body or, in a database, another statement.
	StepOtherBody StepVerdict = "other_body"
	// StepOtherKey: the route's recipe returns another key.
	StepOtherKey StepVerdict = "other_key"
	// StepNoRoute: no request would be sent: the route is gone, no longer takes the type, or its condition is false.
	StepNoRoute StepVerdict = "no_route"
	// StepNewRequest: a request would be sent today, and none was sent then.
	StepNewRequest StepVerdict = "new_request"
	// StepCannotRender: today's configuration cannot render the request.
	StepCannotRender StepVerdict = "cannot_render"
	// StepGone: the body was pruned or erased, or cannot be opened, so that nothing can be compared.
	StepGone StepVerdict = "gone"
)

// StepResult compares a stored result with the answers of the target's probe, its dry run, or both.
type StepResult struct {
	// Stored is the effect's state in Oncegate, with the target's code.
	Stored string `json:"stored"`
	// Target is the probe's answer: done, absent, unknown, or "no probe"; with its status.
	Target string `json:"target"`
	// Match is absent if the two cannot be compared.
	Match *bool `json:"match,omitempty"`
	// DryRun is nil for a step whose target has none.
	DryRun *StepDryRun `json:"dry_run,omitempty"`
}

// StepDryRun is a target's answer about what it would do today.
type StepDryRun struct {
	// Outcome is accepted, refused or unknown; or "not asked", for the reason in Why.
	Outcome string `json:"outcome"`
	// Code is the target's status, if it answered.
	Code string `json:"code,omitempty"`
	// Why says why nothing is known.
	Why string `json:"why,omitempty"`
	// Match is absent if the stored result and the answer cannot be compared.
	Match *bool `json:"match,omitempty"`
	// Changes are the changes from the stored reply to the answer, at most [MaxChanges].
	Changes []Change `json:"changes,omitempty" shows:"content"`
}

func (r *StepResult) differs() bool {
	differs := func(match *bool) bool { return match != nil && !*match }
	return r != nil && (differs(r.Match) || r.DryRun != nil && differs(r.DryRun.Match))
}

// Comparer renders the request that today's configuration would send for each effect of an
// event. It cannot send the request. The wiring implements Comparer.
type Comparer interface {
	Compare(ctx context.Context, r *RecordedEvent) ([]RunStep, error)
}

// AuditConfig configures an [Auditor]. Pool and Comparer are required.
type AuditConfig struct {
	// Pool runs read-only transactions, on one connection at a time.
	Pool     *pgxpool.Pool
	Comparer Comparer

	// Keyring opens bodies; nil if none is sealed.
	Keyring *seal.Keyring

	// Archive has bodies that prune has removed; nil has none.
	Archive *archive.Archive

	// Now is the clock of [AuditRequest.Within]. It defaults to time.Now.
	Now func() time.Time
}

// Auditor compares the steps of a run with today's configuration. Unlike a [Store], it can
// neither settle effects nor enqueue jobs. It stores nothing, so that there is no plan that
// could be run.
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

// MaxAudit is how many events one page of an audit compares at most.
const MaxAudit = 1000

// AuditRequest asks for a page of an audit. A Run with its Source, or a Label, is required; with both, an event must fit both.
type AuditRequest struct {
	// Source is the name of a source of operations. With a Label and no Run it may be any source, and empty means every source.
	Source string

	// Run is the first part of the keys, after credential and operation, escaped as recipes do
	// it. It must match as a whole: run 42 does not include run 421.
	Run string

	// Label takes only events that have this label.
	Label inbox.Label

	// Tenant takes only events of this tenant; empty means every tenant.
	Tenant string

	// Since takes only events received from then on.
	Since time.Time

	// After is Next of the previous page; zero begins with the first event.
	After inbox.ID

	// Limit is how many events are compared; 0 is [MaxAudit], which is also the maximum.
	Limit int

	// Within is how long the page may take; 0 means no limit. The page ends with the chunk of events in which the time runs out.
	Within time.Duration

	// Results makes the Auditor pass the stored replies of the targets to the comparer.
	Results bool
}

// Audit is one page of an audit: the steps of its events, in the order in which the events were received.
type Audit struct {
	Source string    `json:"source"`
	Run    string    `json:"run"`
	Label  string    `json:"label,omitempty"`
	Steps  []RunStep `json:"steps"`

	// Matching counts the steps that match, results included.
	Matching int `json:"matching"`

	// Next is the last event that the page read, if there may be more.
	Next *inbox.ID `json:"next,omitempty"`

	// InTime is false if the page ended because its time ran out.
	InTime bool `json:"-"`
}

// AllMatch reports whether every step of the run matches, results included. It is false if there
// may be more pages, and for a run without steps.
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

// The statement reads all effects of the events except the items of lists, which are compared with their list.
const readRunEffects = recordedEffectColumns + `
WHERE e.event_id = ANY ($1::uuid[]) AND e.item = 0
ORDER BY e.event_id, e.route_id`

// The statement reads the stored replies of effects that are done. A duplicate has its owner's reply, and was not sent.
const readRunResults = `
SELECT e.id, e.result, e.result_key_id
FROM effect e
WHERE e.event_id = ANY ($1::uuid[]) AND e.item = 0 AND e.state = 'done' AND e.result IS NOT NULL`

// Audit compares one page of a run. It changes nothing, because it reads only in transactions in which PostgreSQL
// refuses to write. No transaction is open while it compares, because the targets may take long to answer. It keeps
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

// late reports whether there is a deadline and it has passed.
func (a *Auditor) late(deadline time.Time) bool {
	return !deadline.IsZero() && !a.cfg.Now().Before(deadline)
}

// read runs f in a transaction that cannot write.
func (a *Auditor) read(ctx context.Context, f func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, a.cfg.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead}, f)
}

// compareAll compares the found events, chunk by chunk, and sets where the next page begins.
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

// recorded reads a chunk of events with their effects and, if results is true, the stored replies.
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
	recorded, err := recordedEvents(ctx, tx, a.cfg.Keyring, a.cfg.Archive, events)
	for _, r := range recorded {
		r.Effects = effects[r.Event.ID]
	}
	return recorded, err
}

// readResults adds the stored replies. It omits replies that cannot be opened, which are then not compared.
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
