package prune

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/labels"
)

// removableEvent is the condition for deleting an event e. An event's row is its tombstone. It may be deleted when it is past its horizon ($1), counted from its receipt or from
// its own time, whichever is later, and no guard needs it. (The gate counts from the event's own time, but ignores one
// that is more than a day ahead.) A dead letter itself is deleted only if it was discarded or named ($2), and an event
// in an open replay only if replays are named ($3). condition is a further one.
func removableEvent(condition string, without ...string) string {
	return `
    greatest(e.received_at, least(e.occurred_at, e.received_at + interval '1 day')) < $1::timestamptz
    AND ($2::boolean OR e.admission NOT IN ('unusable', 'beyond_retention') OR e.discarded_at IS NOT NULL)` +
		condition + inbox.KeptRows("inbox_event", strings.NewReplacer(tableNames("{replays}", "$3::boolean")...), without...)
}

// lockDueEvents locks the events to delete. A row that another transaction has locked is being delivered again, resolved or erased: it is left for the next walk.
func lockDueEvents(condition string, without ...string) string {
	return `
WITH page AS MATERIALIZED (
    SELECT id, source_id FROM inbox_event WHERE id > $4::uuid AND id < $5::uuid ORDER BY id LIMIT $6),
due AS MATERIALIZED (
    SELECT e.id
    FROM page p
    JOIN inbox_event e ON e.id = p.id
    WHERE p.source_id = ANY ($7::int[]) AND ` + removableEvent(condition, without...) + `
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED)
SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM page WHERE source_id = ANY ($7::int[])),
    (SELECT id FROM page ORDER BY id DESC LIMIT 1), coalesce((SELECT array_agg(id) FROM due), '{}')`
}

// deleteEvents is a separate statement, because only its snapshot sees what was committed before the rows were locked:
// it checks everything again. It deletes the row that says which call follows which together with the last of the two
// events, because the row prevents a second call from following the earlier one, and says what the later call must
// leave out.
func deleteEvents(condition string, without ...string) string {
	return `
WITH gone AS (
    DELETE FROM inbox_event e WHERE e.id = ANY ($4::uuid[]) AND ` + removableEvent(condition, without...) + ` RETURNING e.id),
results AS (
    DELETE FROM operation_result o USING gone WHERE o.event_id = gone.id RETURNING 1),
labels AS (
    DELETE FROM event_label l USING gone WHERE l.event_id = gone.id RETURNING 1),
children AS (
    DELETE FROM operation_follow o USING gone WHERE o.child = gone.id
        AND NOT EXISTS (SELECT FROM inbox_event e WHERE e.id = o.parent AND NOT EXISTS (SELECT FROM gone g WHERE g.id = e.id))),
parents AS (
    DELETE FROM operation_follow o USING gone WHERE o.parent = gone.id
        AND NOT EXISTS (SELECT FROM inbox_event e WHERE e.id = o.child AND NOT EXISTS (SELECT FROM gone g WHERE g.id = e.id)))
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM results), (SELECT count(*) FROM labels)`
}

// groupSpan is more than the ids of any two rows of one commit differ by. One of these rows may be the one with the
// labels that wait for their index. If no process receives any more, the labels still wait when the events are deleted.
const groupSpan = time.Minute

// events removes tombstones: one walk for each horizon, so that the walk for a short horizon does not read the events
// of a source with a long one again and again.
func (s *pass) events(ctx context.Context) error {
	for _, g := range s.bySource(tombstones) {
		cutoff := s.behindArchive(s.behindEffects(s.retention.cutoff(g.horizon)))
		if err := labels.MoveBefore(ctx, s.conn, inbox.FirstID(cutoff.Time().Add(groupSpan))); err != nil {
			return err
		}
		w := &walk{
			name: eventWalk(g.horizon), table: "inbox_event", first: inbox.ID{}.String(), restartAfter: restartEvery, partial: cutoff != s.retention.cutoff(g.horizon),
			fractionDone: fractionBetween(s.retention.cutoff(2*g.horizon), cutoff),
			batch: func(ctx context.Context, tx pgx.Tx, position string, n int) (batchResult, error) {
				return s.eventBatch(ctx, tx, g, cutoff, position, n)
			},
		}
		if err := s.runWalk(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// behindEffects stops the walk over events where the walk over effects stopped, if that did not come to its end in this
// pass. Otherwise the walk would pass events whose effects still exist, and find them again only a day later.
func (s *pass) behindEffects(cutoff inbox.ID) inbox.ID {
	for _, position := range s.unfinished["effect"] {
		if at, err := inbox.ParseID(position); err == nil {
			if at = inbox.FirstID(at.Time()); bytes.Compare(at[:], cutoff[:]) < 0 {
				cutoff = at
			}
		}
	}
	return cutoff
}

func (s *pass) eventBatch(ctx context.Context, tx pgx.Tx, g horizonGroup, cutoff inbox.ID, position string, n int) (batchResult, error) {
	after, err := inbox.ParseID(position)
	if err != nil {
		return batchResult{}, err
	}
	var (
		got  batchResult
		last inbox.ID
		ids  []inbox.ID
	)
	before, dead, replay := s.retention.now.Add(-g.horizon), s.run.includes(Dead), s.run.includes(Replay)
	err = tx.QueryRow(ctx, s.sql.lockEvents, before, dead, replay, floor(after), cutoff, n, g.ids).
		Scan(&got.examined, &got.due, &last, &ids)
	if err != nil {
		return batchResult{}, err
	}
	got.last = positionOf(last)
	if len(ids) == 0 {
		return got, nil
	}
	var results, labels int64
	if err := tx.QueryRow(ctx, s.sql.deleteEvents, before, dead, replay, ids).Scan(&got.removed, &results, &labels); err != nil {
		return batchResult{}, err
	}
	s.report.Rows["operation_result"] += results
	if labels > 0 { // most sources have none
		s.report.Rows["event_label"] += labels
	}
	return got, nil
}

// horizonGroup are the sources, or routes, that share a horizon.
type horizonGroup struct {
	horizon time.Duration
	ids     []int32
}

func (s *pass) bySource(of func(Horizons) time.Duration) []horizonGroup {
	all := map[int32]Horizons{}
	for _, source := range s.retention.sources {
		all[source.ID] = source.Keep
	}
	return groupByHorizon(all, of)
}

func (s *pass) byRoute(of func(Horizons) time.Duration) []horizonGroup {
	return groupByHorizon(s.retention.routes, of)
}

// groupByHorizon groups sources or routes by horizon, the shortest first. It leaves out those without one, which were
// never registered.
func groupByHorizon(all map[int32]Horizons, of func(Horizons) time.Duration) []horizonGroup {
	groups := map[time.Duration][]int32{}
	for id, h := range all {
		if h == (Horizons{}) {
			continue
		}
		groups[of(h)] = append(groups[of(h)], id)
	}
	out := make([]horizonGroup, 0, len(groups))
	for horizon, ids := range groups {
		slices.Sort(ids)
		out = append(out, horizonGroup{horizon: horizon, ids: ids})
	}
	slices.SortFunc(out, func(a, b horizonGroup) int { return int((a.horizon - b.horizon) / time.Second) })
	return out
}

// floor is the id itself, also where it is zero: as a parameter, the zero ID is
// NULL, and nothing is greater than that.
func floor(id inbox.ID) [16]byte { return id }

// positionOf is the id as a walk notes it; empty for none.
func positionOf(id inbox.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
