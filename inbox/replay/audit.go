package replay

import (
	"bytes"
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
	Why     []string    `json:"why,omitempty"`

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
	return &Auditor{cfg: cfg}, nil
}

// MaxAudit bounds how many events one page of an audit compares.
const MaxAudit = 1000

// AuditRequest asks for a page of an audit. Source and Run are required.
type AuditRequest struct {
	// Source is the name of a source of operations.
	Source string

	// Run is the first part of the keys, behind credential and operation, as recipes write it:
	// escaped. It is compared as a whole: run 42 is not the beginning of run 421.
	Run string

	// Since leaves out what was received before.
	Since time.Time

	// After is the last event of the page before this one; zero begins with the first.
	After inbox.ID

	// Limit is how many events are compared; 0 is [MaxAudit], which is the most.
	Limit int

	// Results gives the comparer what was kept of the targets' replies.
	Results bool
}

// Audit is one page of an audit: the steps of its events, in the order in which these were received.
type Audit struct {
	Source string    `json:"source"`
	Run    string    `json:"run"`
	Steps  []RunStep `json:"steps"`

	// Matching counts the steps that match, results included.
	Matching int `json:"matching"`

	// Next is the last event of the page if there are more.
	Next *inbox.ID `json:"next,omitempty"`
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

// Credentials and operations hold no colon, and recipes escape it in what they are made of, so the
// third part is the first one of the key. No index has it: the events are walked in the order of their ids, so many
// at a time that a statement ends soon, however many belong to other runs and sources.
const (
	readRun = `
WITH stretch AS MATERIALIZED (
    SELECT v.id, v.source_id, v.event_id FROM inbox_event v WHERE v.id > $3::uuid ORDER BY v.id LIMIT $4)
SELECT (SELECT count(*) FROM stretch), (SELECT v.id FROM stretch v ORDER BY v.id DESC LIMIT 1),
    coalesce((SELECT array_agg(v.id ORDER BY v.id) FROM stretch v WHERE v.source_id = s.id AND split_part(v.event_id, ':', 3) = $2), '{}')
FROM source s
WHERE s.name = $1`
	runStretch = 20000
)

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
	out := &Audit{Source: ask.Source, Run: ask.Run, Steps: []RunStep{}}
	if ask.Limit <= 0 || ask.Limit > MaxAudit {
		ask.Limit = MaxAudit
	}
	events, err := a.findRun(ctx, &ask)
	if err == nil {
		if len(events) > ask.Limit {
			events = events[:ask.Limit]
			out.Next = &events[ask.Limit-1]
		}
		err = a.compareAll(ctx, events, ask.Results, out)
		out.CountMatching()
	}
	if err != nil {
		return nil, fmt.Errorf("comparing run %s of source %s: %w", ask.Run, ask.Source, err)
	}
	return out, nil
}

// findRun finds the events of the page, and one more if there are more.
func (a *Auditor) findRun(ctx context.Context, ask *AuditRequest) (events []inbox.ID, err error) {
	after := ask.After
	if !ask.Since.IsZero() {
		if since := inbox.FirstID(ask.Since); bytes.Compare(after[:], since[:]) < 0 {
			after = since
		}
	}
	for len(events) <= ask.Limit {
		var looked int
		var last inbox.ID
		var found []inbox.ID
		err := a.read(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, readRun, ask.Source, ask.Run, [16]byte(after), runStretch).Scan(&looked, &last, &found)
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, nil // there is no such source
		}
		if err != nil {
			return nil, err
		}
		if events = append(events, found...); looked < runStretch {
			break
		}
		after = last
	}
	return events[:min(len(events), ask.Limit+1)], nil
}

// read runs f in a transaction that cannot write.
func (a *Auditor) read(ctx context.Context, f func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, a.cfg.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead}, f)
}

func (a *Auditor) compareAll(ctx context.Context, events []inbox.ID, results bool, out *Audit) error {
	var chunks [][]inbox.ID
	err := a.read(ctx, func(tx pgx.Tx) (err error) {
		chunks, err = recordedChunks(ctx, tx, events, nil)
		return err
	})
	if err != nil {
		return err
	}
	for _, chunk := range chunks {
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
