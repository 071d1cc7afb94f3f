package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Step is what one step of a run did.
type Step struct {
	// State is the replay's present state. While it is [Running], there are more items to take.
	State State
	// Items is how many items the step took.
	Items int
	// Wait is how long to wait before the next step.
	Wait time.Duration
	// JobID is the job that works on the replay. Any other job of the replay was replaced.
	JobID int64
}

// Step takes the next items of a running replay. One transaction restarts the effects and
// writes the items' outcomes and the wake-ups, so that a process that dies leaves the step
// either undone or done. Two processes that work on one replay take turns. Step does not
// touch an effect that has changed since the plan.
func (r *Store) Step(ctx context.Context, id inbox.ID) (Step, error) {
	return r.step(ctx, r.pool, id, 0)
}

func (r *Store) step(ctx context.Context, db interface {
	row.Batcher
	Begin(ctx context.Context) (pgx.Tx, error)
}, id inbox.ID, atMost float32,
) (Step, error) {
	var step Step
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
		step, err = r.stepTx(ctx, tx, id, atMost)
		return err
	})
	if err != nil {
		return Step{}, fmt.Errorf("a step of replay %s: %w", id, err)
	}
	if step.Items > 0 {
		var wake pgx.Batch
		if r.store.Enqueuer().Notify(&wake); wake.Len() > 0 {
			_ = db.SendBatch(ctx, &wake).Close() // without it River finds the jobs at its next poll
		}
	}
	return step, nil
}

// A step takes items in order, so that position and the postponed items describe all that is
// open. coalesce keeps the planner from using the index of a plan's items by effect, with which
// each step would read the whole plan.
const readNextItems = `
SELECT i.position, i.effect_id, i.event_id, coalesce(i.route_id, 0), coalesce(i.effect_version, 0), i.action,
    coalesce(i.effect_state, ''), coalesce(i.effect_reason, ''), coalesce(i.effect_revision, 0)
FROM replay_item i
WHERE i.replay_id = $1 AND i.position > $3 AND coalesce(i.left_out, '') = ''
ORDER BY i.position
LIMIT $2`

const readPostponedItems = `
SELECT i.position, i.effect_id, i.event_id, coalesce(i.route_id, 0), coalesce(i.effect_version, 0), i.action,
    coalesce(i.effect_state, ''), coalesce(i.effect_reason, ''), coalesce(i.effect_revision, 0)
FROM replay_item i
WHERE i.replay_id = $1 AND i.position = ANY ($2::bigint[])
ORDER BY i.position`

// maxPostponed is how many items a replay postpones before it takes no new ones, and
// postponedPause how long it waits after a step that could take none.
const (
	maxPostponed   = 1000
	postponedPause = time.Second
)

// After a late step, a replay catches up by at most $6 microseconds of its rate, because the
// rate is there to spare live deliveries a burst.
const markStep = `
UPDATE replay
SET summary = $2, state = $3, position = $5,
    next_at = greatest(next_at, now() - $6::bigint * interval '1 microsecond') + $4::bigint * interval '1 microsecond'
WHERE id = $1`

func (r *Store) stepTx(ctx context.Context, tx pgx.Tx, id inbox.ID, atMost float32) (Step, error) {
	replay, err := oneReplay(ctx, tx, lockReplay, id)
	if err != nil {
		return Step{}, err
	}
	step := Step{State: replay.State, JobID: replay.jobID}
	if replay.State != Running {
		return step, nil
	}
	limit, rate, late := r.chunk, replay.Rate, 250*time.Millisecond
	if atMost > 0 && (rate == 0 || atMost < rate) {
		rate, late = atMost, 20*time.Millisecond // the throttle delayed it
	}
	if rate > 0 {
		if replay.wait > 0 {
			step.Wait = replay.wait
			return step, nil
		}
		limit = min(limit, itemsPerStep(rate))
	}
	if len(replay.Summary.Later) >= maxPostponed {
		limit = 0
	}
	items, err := readItemsTx(ctx, tx, replay, limit)
	if err != nil {
		return step, err
	}
	more := len(items) == limit
	waits, err := r.waitTx(ctx, tx, &items)
	if err != nil {
		return step, err
	}
	fresh, position := len(items), replay.position
	if fresh > 0 {
		position = items[fresh-1].position
	}
	if later := replay.Summary.Later; len(later) > 0 {
		again, err := collectItems(tx.Query(ctx, readPostponedItems, id, later))
		if err != nil {
			return step, err
		}
		items = append(again, items...) // in their order
	}
	var pause time.Duration
	if rate > 0 {
		pause = time.Duration(float64(len(items)) / float64(rate) * float64(time.Second))
	}
	var end pgx.Batch // statements without results
	if len(items) > 0 {
		if err := r.applyTx(ctx, tx, &end, replay, items, pause); err != nil {
			return step, err
		}
	}
	step.Items = len(items) - len(replay.Summary.Later)
	switch {
	case len(replay.Summary.Later) == 0 && !waits && !more:
		step.State = Queued
	case step.Items == 0:
		step.Wait = postponedPause
	}
	summary, err := json.Marshal(replay.Summary)
	if err != nil {
		return step, err
	}
	end.Queue(markStep, id, summary, string(step.State), pause.Microseconds(), position, late.Microseconds())
	return step, tx.SendBatch(ctx, &end).Close()
}

// The first item whose route, or whose target, is paused. Most installations have no pause, and then no item is read.
const firstPausedItem = `
SELECT coalesce(min(a.position), 0)
FROM unnest($1::bigint[], $2::uuid[], $3::int[]) AS a (position, effect_id, route_id)
LEFT JOIN effect e ON e.id = a.effect_id
JOIN route r ON r.id = coalesce(e.route_id, a.route_id)
WHERE EXISTS (SELECT FROM pause) AND EXISTS (SELECT FROM pause p WHERE p.route_id = r.id OR p.target = r.target)`

// waitTx leaves the items from the first one on whose route or target is paused to a later step. So a replay waits with its
// order and its rate, and does not end in a burst when the pause does. It reports whether it has left any.
func (r *Store) waitTx(ctx context.Context, tx pgx.Tx, items *[]stepItem) (bool, error) {
	if len(*items) == 0 {
		return false, nil
	}
	positions, effects, routes := make([]int64, len(*items)), make([]inbox.ID, len(*items)), make([]int32, len(*items))
	for i, it := range *items {
		positions[i], effects[i], routes[i] = it.position, it.effect, it.route
	}
	var first int64
	if err := tx.QueryRow(ctx, firstPausedItem, positions, effects, routes).Scan(&first); err != nil || first == 0 {
		return false, err
	}
	*items = (*items)[:slices.Index(positions, first)]
	return true, nil
}

// itemsPerStep returns how many items one step takes at a rate in items a second. Steps are
// small, but there are about 20 of them a second at most.
func itemsPerStep(rate float32) int {
	const perSecond, small = 20, 10
	return max(int(rate/perSecond), min(int(rate/4), small), 1)
}

// stepItem is one item of a step.
type stepItem struct {
	planItem
	outcome ItemOutcome
	detail  string
}

func readItemsTx(ctx context.Context, tx pgx.Tx, replay *Replay, limit int) ([]stepItem, error) {
	if limit == 0 {
		return nil, nil
	}
	return collectItems(tx.Query(ctx, readNextItems, replay.ID, limit, replay.position))
}

func collectItems(rows pgx.Rows, err error) ([]stepItem, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (i stepItem, err error) {
		err = row.Scan(&i.position, &i.effect, &i.event, &i.route, &i.version, &i.action, &i.state, &i.reason, &i.revision)
		return i, err
	})
}

var recordOutcomes = `
INSERT INTO replay_outcome (replay_id, position, outcome, detail, made_id)
SELECT $1, a.position, a.outcome, nullif(a.detail, ''), a.made_id
FROM unnest(` + outcomeColumns.Arrays() + `) AS a (` + outcomeColumns.Names() + `)`

// outcomeColumns are the parameters after the replay's id.
var outcomeColumns = row.ColumnsFrom(2,
	row.Bigint("position", func(i *stepItem) int64 { return i.position }),
	row.Text("outcome", func(i *stepItem) ItemOutcome { return i.outcome }),
	row.Text("detail", func(i *stepItem) string { return i.detail }),
	row.UUID("made_id", (*stepItem).madeID),
)

// madeID returns the effect that was created for the item, or zero if there is none.
func (i *stepItem) madeID() inbox.ID {
	if i.outcome == ItemCreated {
		return i.effect
	}
	return inbox.ID{}
}

// applyTx runs the items and records their outcomes. It spreads the wake-ups over the time
// within, and queues the last statements in end. It postpones items whose effect, or its
// stream, another transaction has locked.
func (r *Store) applyTx(ctx context.Context, tx pgx.Tx, end *pgx.Batch, replay *Replay, items []stepItem, within time.Duration) error {
	var moved, made []*stepItem
	for i := range items {
		if items[i].action == ActionCreate {
			made = append(made, &items[i])
		} else {
			moved = append(moved, &items[i])
		}
	}
	locks := inbox.EffectLocks{Streamless: true}
	for i := range items {
		locks.Events = append(locks.Events, items[i].event)
	}
	for _, it := range moved {
		locks.Effects = append(locks.Effects, it.effect)
		if route, known := r.store.Route(it.route); !known || route.Order.Ordered() {
			locks.Streamless = false
		}
	}
	held, missed, err := inbox.LockEffectsTx(ctx, tx, locks)
	if err != nil {
		return err
	}
	replay.Summary.Later = nil
	if len(missed) > 0 {
		left := func(it *stepItem) bool { return it.action != ActionCreate && slices.Contains(missed, it.effect) }
		for _, it := range moved {
			if left(it) {
				replay.Summary.Later = append(replay.Summary.Later, it.position)
			}
		}
		moved = slices.DeleteFunc(moved, left)
	}
	if err := r.replayTx(ctx, tx, end, replay, moved, held, within); err != nil {
		return err
	}
	if err := r.createTx(ctx, tx, replay, made); err != nil {
		return err
	}
	acted := slices.Concat(moved, made)
	if replay.Summary.Outcomes == nil {
		replay.Summary.Outcomes = map[ItemOutcome]int{}
	}
	for _, it := range acted {
		replay.Summary.Outcomes[it.outcome]++
	}
	end.Queue(recordOutcomes, outcomeColumns.AppendEach([]any{replay.ID}, acted)...)
	return nil
}

// Under a new key, the target knows nothing of earlier attempts, and the request is fetched and
// rendered again. An operator who includes indeterminate effects has decided that they may happen again,
// so that their unknown attempts are forgotten.
const resetEffects = `
UPDATE effect e
SET idempotency_key = coalesce(nullif(a.key, ''), e.idempotency_key), unknown_since = NULL, unknown_lease = NULL,
    unknown_before = e.unknown_before OR e.unknown_since IS NOT NULL,
    rendered = CASE WHEN a.key = '' OR e.item > 0 THEN e.rendered END, rendered_key_id = CASE WHEN a.key = '' OR e.item > 0 THEN e.rendered_key_id END,
    fetched = CASE WHEN a.key = '' OR e.item > 0 THEN e.fetched END, fetched_key_id = CASE WHEN a.key = '' OR e.item > 0 THEN e.fetched_key_id END
FROM unnest($1::uuid[], $2::text[]) AS a (id, key)
WHERE e.id = a.id`

// inShadow reports whether the route's source is in shadow mode in this process. A route that it does not know counts as such.
func (r *Store) inShadow(routeID int32) bool {
	route, known := r.store.Route(routeID)
	return !known || route.Shadow
}

// An operator has decided that these effects of shadow mode are carried out.
const leaveShadow = `UPDATE effect SET shadow = false WHERE id = ANY ($1::uuid[])`

// classify returns two groups of items: those whose effects get new attempts, and those for
// which the caller must check whether an operator has made a decision since the plan.
func (r *Store) classify(replay *Replay, items []*stepItem, held map[inbox.ID]*inbox.LockedEffect) (going, doubted []*stepItem) {
	for _, it := range items {
		h := held[it.effect]
		switch {
		case h == nil:
			it.outcome = ItemGone
		case !it.isUnchanged(h):
			it.outcome, it.detail = ItemChanged, fmt.Sprintf("it is %s, at version %d", h.State, h.Version)
			doubted = append(doubted, it)
		case h.CalledAgain && !replay.Options.IncludeCalledAgain:
			it.outcome, it.detail = ItemChanged, "a later call repeats its operation"
		case h.BodyGone():
			it.outcome = ItemBodyGone
		case it.action == ActionCarryOut && r.inShadow(h.RouteID):
			it.outcome, it.detail = ItemLeftOut, "its source is in shadow mode"
		default:
			going = append(going, it)
		}
	}
	return going, doubted
}

// replayTx restarts the locked effects with new attempts. It spreads their wake-ups over the time
// within, because a burst would delay live deliveries.
func (r *Store) replayTx(ctx context.Context, tx pgx.Tx, end *pgx.Batch, replay *Replay, items []*stepItem, held map[inbox.ID]*inbox.LockedEffect, within time.Duration) error {
	going, doubted := r.classify(replay, items, held)
	jobIDs, err := r.reserveAndReadDecisionsTx(ctx, tx, replay, len(going), doubted)
	if err != nil {
		return err
	}
	if len(going) == 0 {
		return nil
	}
	group, wakes := make([]inbox.Settlement, len(going)), make([]inbox.Wake, len(going))
	ids, events := make([]inbox.ID, len(going)), make([]inbox.ID, len(going))
	var fresh, live []inbox.ID
	var keys []string
	for i, it := range going {
		h := held[it.effect]
		ids[i], events[i] = it.effect, h.Event
		group[i] = inbox.Settlement{
			Effect: it.effect, From: h.State, Version: h.Version, State: inbox.EffectPending, Rearm: true, Trigger: inbox.TriggerReplay,
			JobID: jobIDs[i], RouteID: h.RouteID, SequenceKeyHash: h.SequenceKeyHash, ResultsForgotten: true,
		}
		wakes[i] = inbox.Wake{JobID: jobIDs[i], Kind: inbox.WakeEffect, ID: it.effect, Last: true, In: within * time.Duration(i) / time.Duration(len(going))}
		if it.action == ActionCarryOut {
			live = append(live, it.effect)
		}
		if it.action == ActionNewKey {
			fresh, keys = append(fresh, it.effect), append(keys, FreshKey(h.Key, h.Version+1))
		} else if replay.Options.IncludeIndeterminate {
			fresh, keys = append(fresh, it.effect), append(keys, "")
		}
	}
	settled, err := r.store.SettleLocked(ctx, tx, group, wakes)
	if err != nil {
		return err
	}
	for i, it := range going {
		if !settled[i].Applied {
			return fmt.Errorf("%w: effect %s changed under its lock", inbox.ErrState, it.effect)
		}
		it.outcome = ItemReplayed
	}
	if len(live) > 0 {
		end.Queue(leaveShadow, live)
	}
	if len(fresh) > 0 {
		end.Queue(resetEffects, fresh, keys)
	}
	end.Queue(row.ForgetResults, events, ids)
	return nil
}

var versionSuffix = regexp.MustCompile(`~v[0-9]+$`)

// FreshKey returns an effect's key for the version that a replay begins: the original key
// followed by the version. A repeated step derives the same key.
func FreshKey(key string, version int) string {
	return versionSuffix.ReplaceAllString(key, "") + "~v" + strconv.Itoa(version)
}
