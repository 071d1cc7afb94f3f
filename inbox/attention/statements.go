package attention

import (
	"strings"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// statement finds the things of one kind.
type statement struct {
	kind Kind

	// seen gives at most $1 rows in the order of an index, the oldest first where it can: route_id or source_id, the id
	// (a uuid that was made when the thing came) or its time, and the event.
	seen string

	// by is route or source: what seen names.
	by string

	// tenant is a condition on a row k of seen and its source s, with %s for the tenant. Empty is that of the event.
	tenant string
}

// ofEvent is the tenant of the event of a row.
const ofEvent = `EXISTS (SELECT FROM inbox_event v WHERE v.id = k.event_id AND coalesce(v.tenant, s.tenant) = %s)`

// ofSource is for what has no event.
const ofSource = `s.tenant = %s`

// statements read, route by route or source by source where the index begins with that.
var statements = []statement{
	{kind: Indeterminate, by: "route", seen: `
    SELECT r.id AS route_id, e.id, NULL::timestamptz AS at, e.event_id
    FROM route r
    CROSS JOIN LATERAL (
        SELECT e.id, e.event_id FROM effect e WHERE e.route_id = r.id AND e.state = 'indeterminate' ORDER BY e.route_id, e.id LIMIT $1) e
    LIMIT $1`},
	{kind: Dead, by: "route", seen: `
    SELECT e.route_id, e.id, NULL::timestamptz AS at, e.event_id FROM effect e WHERE e.state = 'dead' ORDER BY e.id LIMIT $1`},
	// The newest, so that those that were discarded do not hide others. One that has an effect is no dead letter any more.
	{kind: Unusable, by: "source", tenant: `coalesce(k.tenant, s.tenant) = %s`, seen: `
    SELECT d.source_id, d.id, NULL::timestamptz AS at, d.id AS event_id, d.tenant
    FROM (
        SELECT e.source_id, e.id, e.tenant, e.discarded_at FROM inbox_event e
        WHERE e.admission IN ('unusable', 'beyond_retention') ORDER BY e.id DESC LIMIT $1) d
    WHERE d.discarded_at IS NULL AND NOT EXISTS (SELECT FROM effect x WHERE x.event_id = d.id)`},
	{kind: Blocked, by: "route", seen: `
    SELECT r.id AS route_id, NULL::uuid AS id, m.updated_at AS at, (SELECT e.event_id FROM effect e WHERE e.id = m.blocked_by) AS event_id
    FROM route r
    CROSS JOIN LATERAL (
        SELECT m.updated_at, m.blocked_by FROM stream m WHERE m.route_id = r.id AND m.blocked_by IS NOT NULL ORDER BY m.route_id, m.id LIMIT $1) m
    LIMIT $1`},
	{kind: Gaps, by: "route", seen: `
    SELECT m.route_id, NULL::uuid AS id, m.gap_since AS at, (
            SELECT e.event_id FROM effect e WHERE e.route_id = m.route_id AND e.sequence_key_hash = m.key_hash
            ORDER BY e.sequence_number DESC, e.id DESC LIMIT 1) AS event_id
    FROM stream m WHERE m.gap_since < now() - interval '5 minutes' ORDER BY m.gap_since LIMIT $1`},
	{kind: Undecided, by: "route", seen: `
    SELECT r.id AS route_id, e.id, NULL::timestamptz AS at, e.event_id
    FROM route r
    CROSS JOIN LATERAL (
        SELECT e.id, e.event_id, e.reason FROM effect e WHERE e.route_id = r.id AND e.state = 'held' ORDER BY e.route_id, e.id LIMIT $1) e
    WHERE e.reason IN ('sequence_key_missing', 'sequence_number_missing', 'sequence_number_taken')
    LIMIT $1`},
	{kind: Conflicts, by: "source", seen: `
    SELECT o.id AS source_id, NULL::uuid AS id, c.first_seen_at AS at, c.event_id
    FROM source o
    CROSS JOIN LATERAL (
        SELECT c.first_seen_at, c.event_id, c.admitted_at FROM conflict c WHERE c.source_id = o.id ORDER BY c.source_id, c.last_seen_at DESC LIMIT $1) c
    WHERE c.admitted_at IS NULL
    LIMIT $1`},
	{kind: RefusedOutbox, by: "source", tenant: ofSource, seen: `
    SELECT o.id AS source_id, NULL::uuid AS id, x.created_at AS at, NULL::uuid AS event_id
    FROM (SELECT b.source, b.created_at FROM outbox b WHERE b.refused_at IS NOT NULL ORDER BY b.id LIMIT $1) x
    JOIN source o ON coalesce(o.key_name, o.name) = x.source`},
	// Of what waits for its time only what is due first is looked at, and of what is held what came first.
	{kind: Stranded, by: "route", seen: `
    SELECT e.route_id, e.id, NULL::timestamptz AS at, e.event_id
    FROM (SELECT d.route_id, d.id, d.event_id FROM effect d WHERE d.next_at IS NOT NULL ORDER BY d.next_at, d.id LIMIT $1) e
    JOIN route r ON r.id = e.route_id AND ` + row.GoneRoute + `
    UNION ALL
    SELECT r.id, h.id, NULL, h.event_id
    FROM route r
    CROSS JOIN LATERAL (
        SELECT h.id, h.event_id FROM effect h WHERE h.route_id = r.id AND h.state = 'held' AND h.next_at IS NULL ORDER BY h.route_id, h.id LIMIT $1) h
    WHERE ` + row.GoneRoute},
	{kind: Refusals, by: "source", tenant: ofSource, seen: `
    SELECT o.id AS source_id, f.id, f.received_at AS at, NULL::uuid AS event_id
    FROM source o
    CROSS JOIN LATERAL (
        SELECT f.id, f.received_at FROM refusal f WHERE f.source_id = o.id AND f.id >= $2 ORDER BY f.source_id, f.id LIMIT $1) f
    LIMIT $1`},
}

// sql counts by place, and over all that was seen: a count that reached the bound says "at least".
func (s *statement) sql(tenant bool) string {
	var b strings.Builder
	b.WriteString("WITH seen AS MATERIALIZED (" + s.seen + ")\n")
	route, join := "''", "JOIN source s ON s.id = k.source_id"
	if s.by == "route" {
		route, join = "r.name", "JOIN route r ON r.id = k.route_id JOIN source s ON s.id = r.source_id"
	}
	b.WriteString("SELECT s.name, " + route + ", count(*), min(k.id::text)::uuid, min(k.at), (SELECT count(*) FROM seen)\nFROM seen k " + join)
	if tenant {
		condition, at := s.tenant, "$2"
		if condition == "" {
			condition = ofEvent
		}
		if s.kind == Refusals {
			at = "$3"
		}
		b.WriteString("\nWHERE " + strings.Replace(condition, "%s", at, 1))
	}
	b.WriteString("\nGROUP BY 1, 2\nORDER BY 3 DESC, 1, 2")
	return b.String()
}

// Replays belong to no source. A replay belongs to the tenant that its scope names.
const (
	readPlans = `
SELECT count(*), min(p.created_at)
FROM (
    SELECT r.created_at FROM replay r
    WHERE r.state = 'planned' AND (r.expires_at IS NULL OR r.expires_at > now()) AND ($2::text = '' OR r.scope->>'tenant' = $2)
    LIMIT $1) p`

	readStandstills = `
SELECT count(*), min(p.at)
FROM (
    SELECT coalesce(r.next_at, r.started_at, r.created_at) AS at FROM replay r
    WHERE r.state IN ('planning', 'running') AND coalesce(r.next_at, r.started_at, r.created_at) < now() - interval '10 minutes'
        AND ($2::text = '' OR r.scope->>'tenant' = $2)
    LIMIT $1) p`
)
