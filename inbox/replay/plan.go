package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// PlanRequest asks for a plan. Scope and Actor are required.
type PlanRequest struct {
	Scope   Scope
	Options Options

	// Actor goes into the audit. Reason may be given now or when the plan is run.
	Actor, Reason string

	// Begun, if set, is called with the plan's id as soon as the plan has a row.
	Begun func(id inbox.ID)

	// Progress, if set, is called after each transaction with the number of items planned
	// so far.
	Progress func(items int)
}

// plan is a plan that is being made.
type plan struct {
	*Store
	ask      PlanRequest
	id       inbox.ID
	label    *read.LabelSearch // nil if the scope has no label
	routes   map[int32]planRoute
	summary  Summary
	digest   hash.Hash
	position int64

	// listed are the effects of the page that is being written while the next page is read.
	listed  map[inbox.ID]bool
	writing chan error // receives the result of the page that is being written; nil if there is none
}

// planRoute is a route as the database names it.
type planRoute struct {
	source, name, target string
	createdAt            time.Time
	shadow               bool // its source is in shadow mode, as the server that started last has it
}

const insertReplay = `
INSERT INTO replay (id, state, scope, options, actor, reason, expires_at)
VALUES ($1, 'planning', $2, $3, $4, nullif($5, ''), now() + $6::bigint * interval '1 microsecond')`

// Plan records what a replay would do, and does none of it. The plan has an item for each
// effect of the scope: its version, whether it would be replayed or why not, and, if there
// is a judge, the request that was recorded and the one that would be sent today. Plan writes
// the items a page at a time while it finds them, so that it needs little memory for any
// number of them. The plan cannot be run before it is complete. Plan returns [ErrScope] for
// a scope that would take everything without All.
func (r *Store) Plan(ctx context.Context, ask PlanRequest) (*Replay, error) {
	out, err := r.plan(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("planning a replay: %w", err)
	}
	return out, nil
}

func (r *Store) plan(ctx context.Context, ask PlanRequest) (*Replay, error) {
	if err := ask.Scope.check(ask.Options, r.judge != nil); err != nil {
		return nil, err
	}
	if err := ask.Scope.CheckText(ctx, r.pool); err != nil {
		return nil, err
	}
	reason := ask.Reason
	if reason == "" {
		reason = "-"
	}
	if err := inbox.CheckExplanation(ask.Actor, reason); err != nil {
		return nil, err
	}
	ask.Scope.Named = len(ask.Scope.IDs)
	p := &plan{Store: r, ask: ask, digest: sha256.New()}
	if err := p.findLabel(ctx); err != nil {
		return nil, err
	}
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	if ask.Begun != nil {
		ask.Begun(p.id)
	}
	err := p.items(ctx)
	if err = errors.Join(err, p.waitForWrite()); err == nil {
		err = p.finish(ctx)
	}
	if err != nil {
		// If this fails, the plan expires.
		_, _ = r.pool.Exec(context.WithoutCancel(ctx), abandonReplay, p.id)
		return nil, err
	}
	return r.Status(ctx, p.id)
}

// findLabel prepares the search for the label of the scope.
func (p *plan) findLabel(ctx context.Context) error {
	l := p.ask.Scope.Label
	if l == nil {
		return nil
	}
	search, err := read.FindLabel(ctx, p.pool, p.store.Keyring(), inbox.Label{Name: l.Name, Value: l.Value})
	p.label = &search
	return err
}

// storedScope returns the scope that the plan's row stores. It omits the value of a label if this installation keeps only
// hashes of such values.
func (p *plan) storedScope() Scope {
	if p.label != nil && p.label.Hashed {
		return p.ask.Scope.withoutValue(true)
	}
	return p.ask.Scope
}

const abandonReplay = `
UPDATE replay SET state = 'cancelled', finished_at = now() WHERE id = $1 AND state = 'planning'`

const readPlanRoutes = `SELECT r.id, s.name, r.name, r.target, r.created_at, s.shadow FROM route r JOIN source s ON s.id = r.source_id`

func (p *plan) begin(ctx context.Context) error {
	rows, err := p.pool.Query(ctx, readPlanRoutes)
	if err != nil {
		return err
	}
	p.routes = map[int32]planRoute{}
	var id int32
	var route planRoute
	if _, err := pgx.ForEachRow(rows, []any{&id, &route.source, &route.name, &route.target, &route.createdAt, &route.shadow}, func() error {
		p.routes[id] = route
		return nil
	}); err != nil {
		return err
	}
	scope, err := json.Marshal(p.storedScope())
	if err != nil {
		return err
	}
	options, err := json.Marshal(p.ask.Options)
	if err != nil {
		return err
	}
	var now time.Time
	if err := p.pool.QueryRow(ctx, `SELECT now()`).Scan(&now); err != nil {
		return err
	}
	p.id = inbox.NewID(now)
	_, err = p.pool.Exec(ctx, insertReplay, p.id, scope, options, p.ask.Actor, p.ask.Reason, p.expiry.Microseconds())
	return err
}

// items finds the effects of the scope, then its events, and writes an item for each.
func (p *plan) items(ctx context.Context) error {
	if err := p.missing(ctx); err != nil {
		return err
	}
	sql, args := p.ask.Scope.effects(p.ask.Options, p.label)
	if err := p.walk(ctx, sql, args, p.effects); err != nil {
		return err
	}
	if p.judge != nil && (p.ask.Scope.events(p.ask.Options) || len(p.ask.Scope.IDs) > 0) {
		sql, args = p.ask.Scope.newEvents(p.ask.Options, p.label)
		if err := p.walk(ctx, sql, args, p.events); err != nil {
			return err
		}
	}
	return p.unused(ctx)
}

// unused notes that no event has the label of a plan that found nothing. Another tenant's events do not count.
func (p *plan) unused(ctx context.Context) error {
	if p.label == nil || p.position > 0 {
		return nil
	}
	var s row.Statement
	s.Add(`SELECT NOT EXISTS (`)
	p.ask.Scope.addEvents(&s, p.label, nil)
	sql, args := s.Add(`)`).SQL()
	return p.pool.QueryRow(ctx, sql, args...).Scan(&p.summary.NoEvents)
}

// maxMissing is how many of the ids that name nothing the summary lists.
const maxMissing = 10

func (p *plan) missing(ctx context.Context) error {
	if len(p.ask.Scope.IDs) == 0 {
		return nil
	}
	rows, err := p.pool.Query(ctx, scopeMissing, p.ask.Scope.IDs, p.ask.Scope.Tenant)
	if err != nil {
		return err
	}
	var id inbox.ID
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		if p.summary.Unknown++; p.summary.Unknown <= maxMissing {
			p.summary.Missing = append(p.summary.Missing, id.String())
		}
		return nil
	})
	return err
}

const markPlanned = `
UPDATE replay SET state = 'planned', digest = $2, summary = $3, expires_at = now() + $4::bigint * interval '1 microsecond'
WHERE id = $1 AND state = 'planning'
RETURNING now()`

var errPlanCancelled = errors.New("it was cancelled while it was being planned")

func (p *plan) finish(ctx context.Context) error {
	summary, err := json.Marshal(p.summary)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		a := inbox.AuditEntry{Actor: p.ask.Actor, Action: inbox.AuditReplayPlan, Object: "replay/" + p.id.String(), Reason: p.ask.Reason, After: map[string]any{
			"scope": p.ask.Scope.withoutValue(false), "options": p.ask.Options, "items": p.summary.Items, "to_do": p.summary.ToDo, "digest": fmt.Sprintf("%x", p.digest.Sum(nil)),
		}}
		err := tx.QueryRow(ctx, markPlanned, p.id, p.digest.Sum(nil), summary, p.expiry.Microseconds()).Scan(&a.At)
		if errors.Is(err, pgx.ErrNoRows) {
			return errPlanCancelled
		}
		if err != nil {
			return err
		}
		return inbox.WriteAuditTx(ctx, tx, a)
	})
}

const markPlanning = `
UPDATE replay SET summary = $2 WHERE id = $1 AND state = 'planning' RETURNING id`

// waitForWrite waits for the page that is being written, and reports the progress.
func (p *plan) waitForWrite() error {
	if p.writing == nil {
		return nil
	}
	err := <-p.writing
	if p.writing = nil; err == nil && p.ask.Progress != nil {
		p.ask.Progress(p.summary.Items)
	}
	return err
}

// write starts to write one page of items, after the previous page is written. It does not
// wait for the new page, so that the next one is judged in the meantime. It fails if the plan was
// cancelled.
func (p *plan) write(ctx context.Context, items []planItem) error {
	if len(items) == 0 {
		return nil
	}
	if err := p.waitForWrite(); err != nil {
		return err
	}
	for i := range items {
		it := &items[i]
		p.position++
		it.position = p.position
		it.digest(p.digest)
		route := p.routes[it.route]
		p.summary.add(Group{
			Route: it.route, Source: route.source, Name: route.name, Target: route.target, Action: it.action, LeftOut: it.leftOut, Verdict: it.verdict,
		})
	}
	summary, err := json.Marshal(p.summary)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	p.writing = ended
	go func() { ended <- p.writePage(ctx, items, summary) }()
	return nil
}

func (p *plan) writePage(ctx context.Context, items []planItem, summary []byte) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		var b pgx.Batch
		going := false
		b.Queue(markPlanning, p.id, summary).Query(func(rows pgx.Rows) error {
			ids, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
			going = len(ids) == 1
			return err
		})
		queueItems(&b, p.store.Keyring(), p.id, items)
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if !going {
			return errPlanCancelled
		}
		return nil
	})
}

// events plans the effects that the events of a page would get today.
func (p *plan) events(ctx context.Context, events []inbox.ID) error {
	var items []planItem
	err := p.eachRecorded(ctx, events, nil, func(r *RecordedEvent, judgements []Judgement) {
		for _, j := range judgements {
			if j.Effect.IsZero() && (j.Verdict == VerdictNewRoute || j.Verdict == VerdictCannotRender) && p.inScope(j.RouteID) {
				items = append(items, p.newEffectItem(r, j))
			}
		}
	})
	if err != nil {
		return err
	}
	// The sort is stable: the items of one event stay in the order of its routes.
	slices.SortStableFunc(items, func(a, b planItem) int { return bytes.Compare(a.event[:], b.event[:]) })
	for chunk := range slices.Chunk(items, p.page) {
		if err := p.write(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) newEffectItem(r *RecordedEvent, j Judgement) planItem {
	it := planItem{event: r.Event.ID, route: j.RouteID, action: ActionCreate, verdict: j.Verdict, diff: j.Diff, state: stateToCreate}
	if r.Discarded {
		it.reason = reasons.Discarded
	}
	switch {
	case r.Discarded && !p.ask.Options.IncludeDiscarded:
		it.action, it.leftOut = ActionNone, LeftOutSettled
	case p.effectsPruned(r, j.RouteID):
		it.action, it.leftOut = ActionNone, LeftOutEffectsPruned
	case j.Ordered:
		it.action, it.leftOut = ActionNone, LeftOutOrdered
	case r.Event.BodyGone && r.Event.GoneReason == reasons.KeyMissing:
		it.action, it.leftOut = ActionNone, LeftOutCannotRender
	case r.Event.BodyGone:
		it.action, it.leftOut = ActionNone, LeftOutBodyGone
	case j.Verdict == VerdictCannotRender:
		it.action, it.leftOut = ActionNone, LeftOutCannotRender
	}
	return it
}

// effectsPruned reports whether the route may have had an effect of the event that was
// pruned. That is impossible if the event or the route is younger than the retention of
// effects, and for an event that was recorded without effects.
func (p *plan) effectsPruned(r *RecordedEvent, route int32) bool {
	return r.EffectsSince.After(r.Event.ReceivedAt) && r.EffectsSince.After(p.routes[route].createdAt) && !r.DeadLetter
}

// inScope reports whether the filter takes the route.
func (p *plan) inScope(route int32) bool {
	f, r := &p.ask.Scope, p.routes[route]
	return (f.Route == "" || f.Route == r.name) && (f.Target == "" || f.Target == r.target)
}
