package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	// Matching counts the steps that match.
	Matching int `json:"matching"`

	// Next is the last event of the page if there are more.
	Next *inbox.ID `json:"next,omitempty"`
}

// AllMatch reports whether every step of the run matches, results included. It is false while there
// are more pages, and for a run of which nothing is known.
func (a *Audit) AllMatch() bool {
	return a.Next == nil && len(a.Steps) > 0 && !slices.ContainsFunc(a.Steps, func(s RunStep) bool {
		return !s.Match || s.Result.differs()
	})
}

// Credentials and operations hold no colon, and recipes escape it in what they are made of, so the
// third part is the first one of the key. No index has it: the events of the source are walked in the order of
// their ids, from $4 on.
const readRun = `
SELECT v.id
FROM inbox_event v
JOIN source s ON s.id = v.source_id
WHERE s.name = $1 AND split_part(v.event_id, ':', 3) = $2
    AND ($3::uuid IS NULL OR v.id > $3) AND ($4::uuid IS NULL OR v.id >= $4)
ORDER BY v.id
LIMIT $5`

// All effects of the events but the items of lists, which are compared with their list.
const readRunEffects = recordedEffectColumns + `
WHERE e.event_id = ANY ($1::uuid[]) AND e.item = 0
ORDER BY e.event_id, e.route_id`

// What was kept of the replies to the effects that are done. A duplicate has its owner's, and was not sent.
const readRunResults = `
SELECT e.id, e.result, e.result_key_id
FROM effect e
WHERE e.event_id = ANY ($1::uuid[]) AND e.item = 0 AND e.state = 'done' AND e.result IS NOT NULL`

// Audit compares one page of a run. It changes nothing: all that it reads, it reads in a transaction in which
// PostgreSQL refuses to write.
func (a *Auditor) Audit(ctx context.Context, ask AuditRequest) (*Audit, error) {
	out := &Audit{Source: ask.Source, Run: ask.Run, Steps: []RunStep{}}
	limit := ask.Limit
	if limit <= 0 || limit > MaxAudit {
		limit = MaxAudit
	}
	err := pgx.BeginTxFunc(ctx, a.cfg.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		var since inbox.ID // the first one of that time; none is NULL
		if !ask.Since.IsZero() {
			since = inbox.FirstID(ask.Since)
		}
		rows, err := tx.Query(ctx, readRun, ask.Source, ask.Run, ask.After, since, limit+1)
		if err != nil {
			return err
		}
		events, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
		if err != nil {
			return err
		}
		if len(events) > limit {
			events = events[:limit]
			out.Next = &events[limit-1]
		}
		for chunk := range slices.Chunk(events, judgeChunk) {
			if err := a.compare(ctx, tx, chunk, ask.Results, out); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("comparing run %s of source %s: %w", ask.Run, ask.Source, err)
	}
	return out, nil
}

func (a *Auditor) compare(ctx context.Context, tx row.Querier, events []inbox.ID, results bool, out *Audit) error {
	rows, err := tx.Query(ctx, readRunEffects, events)
	if err != nil {
		return err
	}
	recorded, err := collectRecordedEffects(rows, a.cfg.Keyring, len(events))
	if err != nil {
		return err
	}
	if results {
		if err := a.readResults(ctx, tx, events, recorded); err != nil {
			return err
		}
	}
	if rows, err = tx.Query(ctx, readRecordedEvents, events); err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanRecordedEvent(rows, a.cfg.Keyring)
		if err != nil {
			return err
		}
		r.Effects = recorded[r.Event.ID]
		steps, err := a.cfg.Comparer.Compare(ctx, r)
		if err != nil {
			return err
		}
		for _, step := range steps {
			if step.Match {
				out.Matching++
			}
			out.Steps = append(out.Steps, step)
		}
	}
	return rows.Err()
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
