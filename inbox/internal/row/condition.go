package row

// CalledAgain says of an effect x whether a later call repeats it: an event whose `parent` is the event of x, or of a
// duplicate of x, or of such a later call. That call counts if it has an effect of the same route that is not skipped:
// a done one has happened; a dead one should be replayed instead of x. A call with other routes counts while one of its
// effects waits, is claimed or is indeterminate, because a person may have moved its effects to these routes, and also
// once all of them are settled; settled effects, and only those, may be pruned by then. A later call whose effect was
// discarded, or is x itself under the same effect key, does not count. A chain is followed for 16 calls.
//
// The index of parents is partial: for events that are no such calls, which are most, this is two lookups that find
// nothing. A later call's effects are summed up in one place, because otherwise the planner would hash the effects of
// the whole route.
const CalledAgain = `
    CASE WHEN EXISTS (SELECT FROM inbox_event c WHERE c.parent IS NOT NULL AND c.parent = ANY (` + callsOf + `)) THEN EXISTS (
        WITH RECURSIVE later (id, admission, depth) AS (
            SELECT c.id, c.admission, 1
            FROM inbox_event c
            WHERE c.parent IS NOT NULL AND c.parent = ANY (` + callsOf + `)
            UNION
            SELECT c.id, c.admission, l.depth + 1
            FROM later l
            JOIN inbox_event c ON c.parent = l.id AND c.parent IS NOT NULL
            WHERE l.depth < 16)
        SELECT
        FROM later l
        CROSS JOIN LATERAL (
            SELECT coalesce(bool_or(f.route_id = x.route_id AND coalesce(o.id, f.id) <> x.id AND coalesce(o.state, f.state) <> 'skipped'
                    OR coalesce(o.id, f.id) <> x.id AND coalesce(o.state, f.state) IN ('pending', 'claimed', 'retry', 'held', 'indeterminate')), false) AS same,
                coalesce(bool_and(coalesce(o.state, f.state) IN ('done', 'superseded', 'skipped') AND coalesce(o.id, f.id) <> x.id
                    AND coalesce(o.reason, f.reason, '') <> 'discarded'), l.admission = 'ok') AS settled
            FROM effect f
            LEFT JOIN effect o ON o.id = f.duplicate_of
            WHERE f.event_id = l.id) k
        WHERE k.same OR k.settled OR coalesce((SELECT d.status FROM operation_result d WHERE d.event_id = l.id), '') = 'done')
    ELSE false END`

// callsOf are the calls of an effect x: its own, and those of its duplicates.
const callsOf = `ARRAY (
        SELECT x.event_id
        UNION ALL
        SELECT d.event_id FROM effect d WHERE d.duplicate_of = x.id AND d.duplicate_of IS NOT NULL)`

// ReadClock reads the database's clock: clock_timestamp is the instant of the call, where now() would be the start of
// the transaction.
const ReadClock = `SELECT clock_timestamp()`

// FromRestingEffects counts the dead and indeterminate effects of each route of $1, each up to $2.
const FromRestingEffects = `
FROM unnest($1::int[]) AS r (id)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE x.state = 'dead') AS dead
    FROM (
        SELECT e.state
        FROM effect e
        WHERE e.route_id = r.id AND e.state IN ('dead', 'indeterminate')
        ORDER BY e.route_id, e.id
        LIMIT $2) x) d
CROSS JOIN LATERAL (
    SELECT count(*) AS indeterminate
    FROM (
        SELECT
        FROM effect e
        WHERE e.route_id = r.id AND e.state = 'indeterminate'
        ORDER BY e.route_id, e.id
        LIMIT $2) x) i`

// OpenItem says of an item i that its plan may still act on it, so that the rows that it needs must not be deleted. A
// plan that has expired cannot run any more, even if it is not marked yet. A running plan does not expire, even if no
// worker works on it.
const OpenItem = `i.left_out IS NULL AND (i.position > plan.position OR plan.summary @> jsonb_build_object('later', jsonb_build_array(i.position)))
    AND (plan.state = 'running' OR plan.state IN ('planning', 'planned') AND (plan.expires_at IS NULL OR plan.expires_at > now()))`

// GoneRoute says of a route r that the latest started server does not have it, and that no live process has it: in a
// rolling deployment an old process may start last, and the routes of the new ones are not gone. Each server registers
// all its sources and routes in one transaction, whose time they get. The interval is node.Silence.
const GoneRoute = `(r.updated_at < (SELECT max(s.updated_at) FROM source s)
    AND NOT EXISTS (SELECT FROM node n WHERE r.id = ANY (n.route_ids) AND n.heartbeat > now() - interval '30 s'))`

// GoneSource says of a source s what GoneRoute says of a route. Processes that only receive do not count.
const GoneSource = `(s.updated_at < (SELECT max(o.updated_at) FROM source o)
    AND NOT EXISTS (SELECT FROM route r JOIN node n ON r.id = ANY (n.route_ids) WHERE r.source_id = s.id AND n.heartbeat > now() - interval '30 s'))`

// MaxCounted bounds the counts that people see.
const MaxCounted = 10_000

// NoneHappened says of an effect o that none of its attempts, of any version, may have happened, nor any item of the list
// that it became. LIMIT makes PostgreSQL look up each effect alone; otherwise the planner would hash the first items of all
// lists.
const NoneHappened = `
    o.unknown_since IS NULL AND NOT o.unknown_before
    AND (SELECT true FROM effect_attempt t WHERE t.effect_id = o.id AND t.outcome IN ('done', 'indeterminate') LIMIT 1) IS NULL
    AND (o.item > 0 OR (SELECT true FROM effect i WHERE i.event_id = o.event_id AND i.route_id = o.route_id AND i.item = 1 LIMIT 1) IS NULL)`

// DeadEvent says of an event v that it is a dead letter itself. It is no longer one once it has an effect.
const DeadEvent = `v.admission IN ('unusable', 'beyond_retention') AND v.discarded_at IS NULL
        AND (SELECT true FROM effect x WHERE x.event_id = v.id LIMIT 1) IS NULL`

// HeldForPerson says of an effect e that only a person ends its wait.
const HeldForPerson = `e.state = 'held' AND e.reason IN ('sequence_key_missing', 'sequence_number_missing', 'sequence_number_taken', 'sequence_time_ahead')`

// RaiseRevisions raises the revision of effects whose state a decision does not change, so that no earlier plan sends
// them. Decisions that change the state do so in settle. The rows must be locked.
const RaiseRevisions = `UPDATE effect SET revision = revision + 1 WHERE id = ANY ($1::uuid[])`
