package prune

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Count is what a pass would remove of one table, of one class.
type Count struct {
	Class string `json:"class"`
	Table string `json:"table"`

	// Rows would go; Stays are past their horizon, but something needs them.
	Rows  int64 `json:"rows"`
	Stays int64 `json:"stays"`

	// Bytes is what a day of bodies takes on disk; 0 for other tables.
	Bytes int64 `json:"bytes,omitempty"`
}

// One statement, so one snapshot: each step counts without what the step before
// it would have removed. It reads whole tables, and is run by people only.
const countPrunable = `
WITH routes AS (
    SELECT * FROM unnest($1::int[], $2::timestamptz[], $3::uuid[], $4::timestamptz[], $5::timestamptz[])
        AS r (id, effects, effects_id, tombstones, asked)),
sources AS (
    SELECT * FROM unnest($6::int[], $7::timestamptz[], $8::uuid[], $9::uuid[], $12::timestamptz[])
        AS s (id, tombstones, tombstones_id, refusals_id, bodies)),
conflicts AS MATERIALIZED (
    SELECT c.id, c.source_id FROM conflict c JOIN sources s ON s.id = c.source_id WHERE c.last_seen_at < s.bodies),
replayed AS MATERIALIZED (
    SELECT i.event_id, i.effect_id FROM replay_item i JOIN replay plan ON plan.id = i.replay_id
    WHERE ` + row.OpenItem + ` AND NOT $11::boolean),
made AS MATERIALIZED (
    SELECT i.event_id, i.route_id FROM replay_item i JOIN replay plan ON plan.id = i.replay_id
    WHERE i.action = 'create' AND ` + row.OpenItem + `),
keys AS MATERIALIZED (
    SELECT k.route_id, k.key_hash
    FROM effect_key k
    JOIN routes r ON r.id = k.route_id
    WHERE k.expires_at < now() AND k.received_at < r.tombstones AND k.expires_at < r.asked
        AND NOT EXISTS (
            SELECT FROM effect o
            WHERE o.id = k.effect_id AND o.state NOT IN ('done', 'superseded', 'skipped', 'duplicate')
                AND NOT (o.state = ANY ($10::text[]) AND o.id < r.effects_id))),
effects AS MATERIALIZED (
    SELECT e.id, e.route_id
    FROM effect e
    JOIN routes r ON r.id = e.route_id
    WHERE e.id < r.effects_id
        AND (e.state IN ('done', 'superseded', 'skipped', 'duplicate') AND (e.finished_at < r.effects OR e.reason = 'pruned')
            OR e.state = ANY ($10::text[]))
        AND NOT EXISTS (
            SELECT FROM effect d
            WHERE d.duplicate_of = e.id AND (d.finished_at >= r.effects OR d.finished_at IS NULL))
        AND NOT EXISTS (SELECT FROM made m WHERE m.event_id = e.event_id AND m.route_id = e.route_id)
        AND NOT EXISTS (
            SELECT FROM effect_key k
            WHERE k.effect_id = e.id
                AND NOT EXISTS (SELECT FROM keys g WHERE g.route_id = k.route_id AND g.key_hash = k.key_hash))
        AND NOT EXISTS (
            SELECT FROM stream m
            WHERE m.route_id = e.route_id AND m.key_hash = e.sequence_key_hash AND e.sequence_number > m.applied
                AND (m.gap_since IS NOT NULL OR m.blocked_by IS NOT NULL OR m.in_flight IS NOT NULL))
        AND NOT EXISTS (SELECT FROM replayed i WHERE i.effect_id = e.id)),
events AS MATERIALIZED (
    SELECT e.id, e.source_id
    FROM inbox_event e
    JOIN sources s ON s.id = e.source_id
    WHERE e.id < s.tombstones_id
        AND greatest(e.received_at, least(e.occurred_at, e.received_at + interval '1 day')) < s.tombstones
        AND ('dead' = ANY ($10::text[]) OR e.admission NOT IN ('unusable', 'beyond_retention') OR e.discarded_at IS NOT NULL)
        AND NOT EXISTS (
            SELECT FROM effect f WHERE f.event_id = e.id AND NOT EXISTS (SELECT FROM effects g WHERE g.id = f.id))
        AND NOT EXISTS (
            SELECT FROM conflict c WHERE c.event_id = e.id AND NOT EXISTS (SELECT FROM conflicts g WHERE g.id = c.id))
        AND NOT EXISTS (SELECT FROM replayed i WHERE i.event_id = e.id)),
counted AS (
    SELECT r.source_id, 'effect' AS of, count(*) AS going,
        (SELECT count(*) FROM effect e JOIN routes c ON c.id = e.route_id JOIN route t ON t.id = e.route_id
         WHERE t.source_id = r.source_id AND e.id < c.effects_id) - count(*) AS stays
    FROM effects g JOIN route r ON r.id = g.route_id GROUP BY 1
    UNION ALL
    SELECT r.source_id, 'effect', 0, count(*)
    FROM effect e JOIN routes c ON c.id = e.route_id JOIN route r ON r.id = e.route_id
    WHERE e.id < c.effects_id AND r.source_id NOT IN (SELECT q.source_id FROM effects g JOIN route q ON q.id = g.route_id)
    GROUP BY 1
    UNION ALL
    SELECT r.source_id, 'effect_attempt', count(*), 0
    FROM effects g JOIN effect_attempt a ON a.effect_id = g.id JOIN route r ON r.id = g.route_id GROUP BY 1
    UNION ALL
    SELECT r.source_id, 'effect_key', count(*), 0 FROM keys g JOIN route r ON r.id = g.route_id GROUP BY 1
    UNION ALL
    SELECT s.id, 'inbox_event', (SELECT count(*) FROM events g WHERE g.source_id = s.id),
        (SELECT count(*) FROM inbox_event e WHERE e.source_id = s.id AND e.id < s.tombstones_id)
            - (SELECT count(*) FROM events g WHERE g.source_id = s.id)
    FROM sources s
    UNION ALL
    SELECT g.source_id, 'operation_result', count(*), 0
    FROM events g JOIN operation_result o ON o.event_id = g.id GROUP BY 1
    UNION ALL
    SELECT g.source_id, 'event_label', count(*), 0
    FROM events g JOIN event_label l ON l.event_id = g.id GROUP BY 1
    UNION ALL
    SELECT r.source_id, 'stream', count(*), 0
    FROM stream s JOIN routes c ON c.id = s.route_id JOIN route r ON r.id = s.route_id
    WHERE s.in_flight IS NULL AND s.blocked_by IS NULL AND s.gap_since IS NULL AND s.updated_at < c.tombstones
        AND NOT EXISTS (
            SELECT FROM effect e WHERE e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash
                AND NOT EXISTS (SELECT FROM effects g WHERE g.id = e.id))
        AND NOT (s.applied IS NOT NULL AND ` + everContiguous + `)
    GROUP BY 1
    UNION ALL
    SELECT g.source_id, 'conflict', count(*), 0 FROM conflicts g GROUP BY 1
    UNION ALL
    SELECT s.id, 'refusal', count(*), 0 FROM refusal f JOIN sources s ON s.id = f.source_id WHERE f.id < s.refusals_id GROUP BY 1)
SELECT s.class, c.of, sum(c.going)::bigint, sum(c.stays)::bigint
FROM counted c JOIN source s ON s.id = c.source_id
GROUP BY 1, 2
HAVING sum(c.going) + sum(c.stays) > 0
ORDER BY 1, 2`

const countRecords = `
SELECT
    (SELECT count(*) FROM replay r WHERE r.id < $1::uuid AND (r.state IN ('done', 'cancelled', 'expired') OR r.state = 'planned' AND r.expires_at < now())),
    (SELECT count(*) FROM replay r JOIN replay_item i ON i.replay_id = r.id
     WHERE r.id < $1::uuid AND (r.state IN ('done', 'cancelled', 'expired') OR r.state = 'planned' AND r.expires_at < now())),
    (SELECT count(*) FROM audit a WHERE a.id < $2::uuid)`

// %[1]s is the day's table.
const countDay = `
SELECT (SELECT count(*) FROM %[1]s),
    (SELECT count(DISTINCT e.body_id) FROM inbox_event e
     WHERE e.id >= $3::uuid AND e.id < $4::uuid AND e.class = $5 AND ` + neededEvent + `
        AND EXISTS (SELECT FROM %[1]s b WHERE b.id = e.body_id))`

const countKept = `
WITH needed AS MATERIALIZED (SELECT e.body_id FROM inbox_event e WHERE e.class = 'kept' AND ` + neededEvent + `)
SELECT count(*) FILTER (WHERE NOT EXISTS (SELECT FROM needed n WHERE n.body_id = b.id)),
    count(*) FILTER (WHERE EXISTS (SELECT FROM needed n WHERE n.body_id = b.id))
FROM inbox_body_kept b`

// DryRun counts exactly what [Pruner.Run] would remove now, by class, and removes
// nothing. It reads whole tables: it is for people, not for monitoring.
func (p *Pruner) DryRun(ctx context.Context, run Run) (counts []Count, err error) {
	if err := run.checkInclude(); err != nil {
		return nil, err
	}
	err = pgx.BeginTxFunc(ctx, p.cfg.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		keep, err := readRetention(ctx, tx)
		if err != nil {
			return err
		}
		s := &pass{Pruner: p, run: run, retention: keep}
		counts, err = s.counts(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("counting what prune would remove: %w", err)
	}
	return counts, nil
}

func (s *pass) counts(ctx context.Context, tx pgx.Tx) ([]Count, error) {
	out, err := s.countBodies(ctx, tx)
	if err != nil {
		return nil, err
	}
	bounds, ok, err := s.retention.keyBounds(ctx, tx, s.run.states())
	if err != nil {
		return nil, err
	}
	if !ok {
		bounds = keyBounds{}
	}
	args := newPruneColumns(s.retention, bounds)
	rows, err := tx.Query(ctx, countPrunable, args.routes, args.effects, args.effectIDs, args.routeTombstones, args.asked,
		args.sources, args.tombstones, args.tombstoneIDs, args.refusalIDs, s.run.states(), s.run.includes(Replay), args.bodies)
	if err != nil {
		return nil, err
	}
	var c Count
	_, err = pgx.ForEachRow(rows, []any{&c.Class, &c.Table, &c.Rows, &c.Stays}, func() error {
		out = append(out, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var replays, items, audits int64
	err = tx.QueryRow(ctx, countRecords, s.retention.cutoff(replayRetention), s.retention.cutoff(s.retention.longest.Audit)).Scan(&replays, &items, &audits)
	if err != nil {
		return nil, err
	}
	if s.retention.longest.Audit == 0 {
		audits = 0
	}
	sessions, err := s.countAgentSessions(ctx, tx)
	if err != nil {
		return out, err
	}
	requests, err := s.countAPIRequests(ctx, tx)
	if err != nil {
		return out, err
	}
	logins, links, err := s.countLogins(ctx, tx)
	if err != nil {
		return out, err
	}
	counted, err := s.countStatistics(ctx, tx)
	for _, c := range append(counted, []Count{{Table: "agent_session", Rows: sessions}, {Table: "console_login", Rows: logins}, {Table: "login_link", Rows: links}, {Table: "api_request", Rows: requests}, {Table: "replay", Rows: replays}, {Table: "replay_item", Rows: items}, {Table: "audit", Rows: audits}}...) {
		if c.Rows > 0 {
			out = append(out, c)
		}
	}
	return out, err
}

func (s *pass) countBodies(ctx context.Context, tx pgx.Tx) (out []Count, err error) {
	all, err := partitions(ctx, tx)
	if err != nil {
		return nil, err
	}
	sources, since := s.longerKeepingSources()
	for i := range all {
		p := &all[i]
		if !s.retention.due(p) {
			continue
		}
		c := Count{Class: p.class, Table: p.name, Bytes: p.bytes}
		err := tx.QueryRow(ctx, fmt.Sprintf(countDay, p.name), sources, since, inbox.FirstID(p.day), inbox.FirstID(p.ends()), p.class).Scan(&c.Rows, &c.Stays)
		if err != nil {
			return nil, err
		}
		c.Rows -= c.Stays
		out = append(out, c)
	}
	c := Count{Class: row.KeptClass, Table: "inbox_body"}
	if err := tx.QueryRow(ctx, countKept, sources, since).Scan(&c.Rows, &c.Stays); err != nil {
		return nil, err
	}
	if c.Rows+c.Stays > 0 {
		out = append(out, c)
	}
	return out, nil
}

// pruneColumns are the horizons as arrays, one for each parameter of
// [countPrunable].
type pruneColumns struct {
	routes, sources                             []int32
	effects, routeTombstones, asked, tombstones []time.Time
	bodies                                      []time.Time
	effectIDs, tombstoneIDs, refusalIDs         []inbox.ID
}

// newPruneColumns takes the bounds of keys too; no key goes where there are none.
func newPruneColumns(r *retention, keys keyBounds) *pruneColumns {
	c := &pruneColumns{sources: []int32{}}
	c.routes, c.effectIDs = r.routeCutoffs()
	for _, id := range c.routes {
		h := r.routes[id]
		c.effects = append(c.effects, r.now.Add(-h.Effects))
		c.routeTombstones = append(c.routeTombstones, r.now.Add(-h.Tombstone-tombstoneSlack))
		bound := time.Time{}
		if j := slices.Index(keys.routes, id); j >= 0 {
			bound = keys.asked[j]
		}
		c.asked = append(c.asked, bound)
	}
	for _, s := range r.sources {
		if s.Keep == (Horizons{}) {
			continue
		}
		c.sources = append(c.sources, s.ID)
		c.tombstones = append(c.tombstones, r.now.Add(-s.Keep.Tombstone-tombstoneSlack))
		c.tombstoneIDs = append(c.tombstoneIDs, r.cutoff(s.Keep.Tombstone+tombstoneSlack))
		c.refusalIDs = append(c.refusalIDs, r.cutoff(s.Keep.Refusals))
		c.bodies = append(c.bodies, r.now.Add(-s.Keep.Body))
	}
	return c
}
