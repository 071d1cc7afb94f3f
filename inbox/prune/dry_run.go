package prune

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

	// AtLeast says that more rows may go: the count looked at the oldest ones only, see [Config.CountLimit]. How many stay is
	// not counted then.
	AtLeast bool `json:"at_least,omitempty"`

	// Bytes is what a day of bodies takes on disk; 0 for other tables.
	Bytes int64 `json:"bytes,omitempty"`

	// Archived is how many of Rows would be written to the archive first, and ArchivedBytes their size before they are compressed. Like
	// Rows, both are at least that if AtLeast is true.
	Archived      int64 `json:"archived,omitempty"`
	ArchivedBytes int64 `json:"archived_bytes,omitempty"`
}

// cap says whether the count reached its limit.
func (c *Count) cap(reached bool) {
	if c.AtLeast = reached; reached {
		c.Stays = 0
	}
}

// countPrunable counts what would go. It is one statement, so one snapshot: each step counts without what the step before it
// would have removed. Of each table it looks at the oldest rows, at most $13, so that it ends soon however many there are.
// An effect that is named counts as it will be settled.
var countPrunable = `
WITH routes AS (
    SELECT * FROM unnest($1::int[], $2::timestamptz[], $3::uuid[], $4::timestamptz[], $5::timestamptz[])
        AS r (id, effects, effects_id, tombstones, asked)),
sources AS (
    SELECT * FROM unnest($6::int[], $7::timestamptz[], $8::uuid[], $9::uuid[], $12::timestamptz[])
        AS s (id, tombstones, tombstones_id, refusals_id, bodies)),
conflicts AS MATERIALIZED (
    SELECT c.id, c.source_id
    FROM sources s
    CROSS JOIN LATERAL (SELECT x.id, x.source_id FROM conflict x WHERE x.source_id = s.id AND x.last_seen_at < s.bodies ORDER BY x.last_seen_at LIMIT $13) c),
effect_then AS NOT MATERIALIZED (
    SELECT x.id, x.event_id, x.route_id, x.item, x.duplicate_of, x.sequence_key_hash, x.sequence_number,
        CASE WHEN n.named THEN 'skipped' ELSE x.state END AS state, CASE WHEN n.named THEN 'pruned' ELSE x.reason END AS reason,
        CASE WHEN n.named THEN now() ELSE x.finished_at END AS finished_at
    FROM effect x
    CROSS JOIN LATERAL (
        SELECT x.state = ANY ($10::text[]) AND EXISTS (SELECT FROM routes r WHERE r.id = x.route_id AND x.id < r.effects_id) AS named OFFSET 0) n),
some_keys AS MATERIALIZED (
    SELECT k.route_id, k.key_hash, k.effect_id, k.received_at, k.expires_at
    FROM effect_key k
    WHERE k.expires_at IS NOT NULL AND k.expires_at < now()
    ORDER BY k.expires_at
    LIMIT $13),
keys AS MATERIALIZED (
    SELECT k.route_id, k.key_hash
    FROM some_keys k
    JOIN routes r ON r.id = k.route_id
    WHERE k.received_at < r.tombstones AND k.expires_at < r.asked` + keptThen("effect_key", "effect_then") + `),
key_left AS NOT MATERIALIZED (
    SELECT x.effect_id FROM effect_key x WHERE (x.route_id, x.key_hash) NOT IN (SELECT g.route_id, g.key_hash FROM keys g)),
some_effects AS MATERIALIZED (
    SELECT e.*, r.effects AS horizon
    FROM effect_then e
    JOIN routes r ON r.id = e.route_id
    WHERE e.id < r.effects_id
    ORDER BY e.id
    LIMIT $13),
heads AS MATERIALIZED (
    SELECT e.id, e.route_id FROM some_effects e WHERE e.item = 0 AND ` + ripeThen + keptThen("effect", "effect_then") + `),
head_left AS NOT MATERIALIZED (SELECT x.* FROM effect_then x WHERE x.id NOT IN (SELECT g.id FROM heads g)),
effects AS MATERIALIZED (
    SELECT id, route_id FROM heads
    UNION ALL
    SELECT e.id, e.route_id FROM some_effects e WHERE e.item > 0 AND ` + ripeThen + keptThen("effect", "head_left") + `),
effect_left AS NOT MATERIALIZED (SELECT x.* FROM effect_then x WHERE x.id NOT IN (SELECT g.id FROM effects g)),
conflict_left AS NOT MATERIALIZED (SELECT x.* FROM conflict x WHERE x.id NOT IN (SELECT g.id FROM conflicts g)),
some_events AS MATERIALIZED (
    SELECT e.id, e.source_id, e.received_at, e.occurred_at, e.admission, e.discarded_at, e.parent, s.tombstones AS horizon
    FROM inbox_event e
    JOIN sources s ON s.id = e.source_id
    WHERE e.id < s.tombstones_id
    ORDER BY e.id
    LIMIT $13),
events AS MATERIALIZED (
    SELECT e.id, e.source_id
    FROM some_events e
    WHERE greatest(e.received_at, least(e.occurred_at, e.received_at + interval '1 day')) < e.horizon
        AND ('dead' = ANY ($10::text[]) OR e.admission NOT IN ('unusable', 'beyond_retention') OR e.discarded_at IS NOT NULL)` + keptThen("inbox_event", "effect_left") + `),
some_streams AS MATERIALIZED (
    SELECT s.id, s.route_id, s.key_hash, s.applied
    FROM stream s
    JOIN routes c ON c.id = s.route_id
    WHERE s.in_flight IS NULL AND s.blocked_by IS NULL AND s.gap_since IS NULL AND s.updated_at < c.tombstones
    ORDER BY s.id
    LIMIT $13),
capped AS MATERIALIZED (
    SELECT (SELECT count(*) = $13 FROM some_keys) AS keys, (SELECT (SELECT count(*) FROM some_keys) = $13 OR (SELECT count(*) FROM some_effects) = $13) AS effects,
        (SELECT count(*) = $13 FROM some_events) AS events, (SELECT count(*) = $13 FROM some_streams) AS streams),
counted AS (
    SELECT r.source_id, 'effect' AS of, count(g.id) AS going, count(*) - count(g.id) AS stays, c.effects AS more
    FROM some_effects e JOIN route r ON r.id = e.route_id LEFT JOIN effects g ON g.id = e.id CROSS JOIN capped c GROUP BY 1, c.effects
    UNION ALL
    SELECT r.source_id, 'effect_attempt', count(*), 0, c.effects
    FROM effects g JOIN effect_attempt a ON a.effect_id = g.id JOIN route r ON r.id = g.route_id CROSS JOIN capped c GROUP BY 1, c.effects
    UNION ALL
    SELECT r.source_id, 'effect_key', count(*), 0, c.keys FROM keys g JOIN route r ON r.id = g.route_id CROSS JOIN capped c GROUP BY 1, c.keys
    UNION ALL
    SELECT e.source_id, 'inbox_event', count(g.id), count(*) - count(g.id), c.effects OR c.events
    FROM some_events e LEFT JOIN events g ON g.id = e.id CROSS JOIN capped c GROUP BY 1, c.effects, c.events
    UNION ALL
    SELECT g.source_id, 'operation_result', count(*), 0, c.effects OR c.events
    FROM events g JOIN operation_result o ON o.event_id = g.id CROSS JOIN capped c GROUP BY 1, c.effects, c.events
    UNION ALL
    SELECT g.source_id, 'event_label', count(*), 0, c.effects OR c.events
    FROM events g JOIN event_label l ON l.event_id = g.id CROSS JOIN capped c GROUP BY 1, c.effects, c.events
    UNION ALL
    SELECT r.source_id, 'stream', count(*), 0, c.effects OR c.streams
    FROM some_streams s JOIN route r ON r.id = s.route_id CROSS JOIN capped c
    WHERE true` + keptThen("stream", "effect_left") + `
    GROUP BY 1, c.effects, c.streams
    UNION ALL
    SELECT g.source_id, 'conflict', count(*), 0, count(*) = $13 FROM conflicts g GROUP BY 1
    UNION ALL
    SELECT s.id, 'refusal', f.n, 0, f.n = $13
    FROM sources s
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM refusal x WHERE x.source_id = s.id AND x.id < s.refusals_id LIMIT $13) y) f)
SELECT s.class, c.of, sum(c.going)::bigint, CASE WHEN bool_or(c.more) THEN 0 ELSE sum(c.stays) END::bigint, bool_or(c.more)
FROM counted c JOIN source s ON s.id = c.source_id
GROUP BY 1, 2
HAVING sum(c.going) + sum(c.stays) > 0
ORDER BY 1, 2`

const ripeThen = `e.state IN ('done', 'superseded', 'skipped', 'duplicate') AND (e.finished_at < e.horizon OR e.reason = 'pruned')`

// keptThen is the condition under which no guard will keep a row, once the rows that are counted before it have gone. effects
// are the effects that remain then.
func keptThen(table, effects string) string {
	return inbox.KeptRows(table, strings.NewReplacer("{horizon}", "e.horizon", "{replays}", "$11::boolean",
		"{effect}", effects, "{effect_key}", "key_left", "{conflict}", "conflict_left"))
}

const countRecords = `
WITH over AS (
    SELECT r.id FROM replay r
    WHERE r.id < $1::uuid AND (r.state IN ('done', 'cancelled', 'expired') OR r.state = 'planned' AND r.expires_at < now())
    ORDER BY r.id LIMIT $3)
SELECT (SELECT count(*) FROM over),
    (SELECT count(*) FROM (SELECT FROM over JOIN replay_item i ON i.replay_id = over.id LIMIT $3) x),
    (SELECT count(*) FROM (SELECT FROM audit a WHERE a.id < $2::uuid LIMIT $3) x)`

// Of the day's bodies and of its events so many are counted as the last parameter says. %[1]s is the day's table.
const countDay = `
SELECT (SELECT count(*) FROM (SELECT FROM %[1]s LIMIT $6) x),
    (SELECT count(DISTINCT x.body_id) FROM (
        SELECT e.body_id FROM inbox_event e
        WHERE e.id >= $3::uuid AND e.id < $4::uuid AND e.class = $5 AND ` + neededEvent + `
            AND EXISTS (SELECT FROM %[1]s b WHERE b.id = e.body_id)
        LIMIT $6) x)`

// The oldest of the kept bodies. The events of a body are found by their common millisecond.
const countKept = `
WITH old AS MATERIALIZED (SELECT b.id FROM inbox_body_kept b ORDER BY b.id LIMIT $3)
SELECT count(*) FILTER (WHERE NOT n.needed), count(*) FILTER (WHERE n.needed)
FROM old b
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM inbox_event e
        WHERE e.id >= (left(b.id::text, 13) || '-0000-0000-000000000000')::uuid AND e.id <= (left(b.id::text, 13) || '-ffff-ffff-ffffffffffff')::uuid
            AND e.body_id = b.id AND e.class = 'kept' AND ` + neededEvent + ` OFFSET 0) AS needed OFFSET 0) n`

// The bodies of a day that the archive would take: those of which an event has its body in the class, or that have no event. It is the
// condition of [archivedEvents], less the bodies that are still needed and would move to the class "kept".
const sizeDay = `
SELECT count(*), coalesce(sum(octet_length(b.headers) + octet_length(b.body)), 0)::bigint
FROM (SELECT * FROM %[1]s LIMIT $4) b
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(e.class = $3 AND NOT ` + neededEvent + `), true) AS goes
    FROM inbox_event e
    WHERE e.id >= (left(b.id::text, 13) || '-0000-0000-000000000000')::uuid AND e.id <= (left(b.id::text, 13) || '-ffff-ffff-ffffffffffff')::uuid
        AND e.body_id = b.id) v
WHERE v.goes`

const sizeKept = `
SELECT count(*), coalesce(sum(octet_length(b.headers) + octet_length(b.body)), 0)::bigint
FROM (SELECT * FROM inbox_body_kept ORDER BY id LIMIT $3) b
WHERE NOT EXISTS (
    SELECT FROM inbox_event e
    WHERE e.id >= (left(b.id::text, 13) || '-0000-0000-000000000000')::uuid AND e.id <= (left(b.id::text, 13) || '-ffff-ffff-ffffffffffff')::uuid
        AND e.body_id = b.id AND e.class = 'kept' AND ` + neededEvent + `)`

// DryRun counts what [Pruner.Run] would remove now, by class, and removes nothing. The counts are exact up to
// [Config.CountLimit] rows of a table, and at least what they say beyond it.
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
		args.sources, args.tombstones, args.tombstoneIDs, args.refusalIDs, s.run.states(), s.run.includes(Replay), args.bodies, s.cfg.CountLimit)
	if err != nil {
		return nil, err
	}
	var c Count
	_, err = pgx.ForEachRow(rows, []any{&c.Class, &c.Table, &c.Rows, &c.Stays, &c.AtLeast}, func() error {
		out = append(out, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var replays, items, audits int64
	err = tx.QueryRow(ctx, countRecords, s.retention.cutoff(replayRetention), s.retention.cutoff(s.retention.longest.Audit), s.cfg.CountLimit).Scan(&replays, &items, &audits)
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
		if c.AtLeast = c.Rows >= s.cfg.CountLimit; c.Rows > 0 {
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
		err := tx.QueryRow(ctx, fmt.Sprintf(countDay, p.name), sources, since, inbox.FirstID(p.day), inbox.FirstID(p.ends()), p.class, s.cfg.CountLimit).Scan(&c.Rows, &c.Stays)
		if err != nil {
			return nil, err
		}
		c.Rows -= c.Stays
		c.cap(c.Rows+c.Stays == s.cfg.CountLimit)
		if s.cfg.Archive.Takes(p.class) {
			if err := tx.QueryRow(ctx, fmt.Sprintf(sizeDay, p.name), sources, since, p.class, s.cfg.CountLimit).Scan(&c.Archived, &c.ArchivedBytes); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	c := Count{Class: row.KeptClass, Table: "inbox_body"}
	if err := tx.QueryRow(ctx, countKept, sources, since, s.cfg.CountLimit).Scan(&c.Rows, &c.Stays); err != nil {
		return nil, err
	}
	if s.cfg.Archive.Configured() {
		if err := tx.QueryRow(ctx, sizeKept, sources, since, s.cfg.CountLimit).Scan(&c.Archived, &c.ArchivedBytes); err != nil {
			return nil, err
		}
	}
	if c.cap(c.Rows+c.Stays == s.cfg.CountLimit); c.AtLeast || c.Rows+c.Stays > 0 {
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
