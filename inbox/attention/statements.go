package attention

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// statement finds the rows of one kind.
type statement struct {
	kind Kind

	// seen returns at most $1 rows in the order of an index, the oldest first if possible: route_id or source_id, the
	// id (a uuid that was made when the row came) or its time, and the event.
	//
	// If a condition were applied after the bound, it would hide the rows beyond the bound. So the conditions that no
	// index answers are inside the bound. They apply until the time of the kind is up; from then on every row is
	// counted, which fills the bound at once and says that there is more. {if X} is such a condition, {theirs X} the
	// condition that the event with the id X belongs to the tenant, and {tenant X} the condition that X is the tenant;
	// the last two are left out if the rows of all tenants are read.
	seen string

	// by is route or source: the kind of id that seen returns.
	by string

	// waits, if set, is a condition on a row k of seen: the other rows do not wait for a person. It is added after {if}
	// as well.
	waits string

	// tenant is a condition on a row k of seen and its source s, with %s for the tenant. Empty means the tenant of the
	// event.
	tenant string
}

// ofEvent is the tenant of the event of a row.
const ofEvent = `EXISTS (SELECT FROM inbox_event v WHERE v.id = k.event_id AND coalesce(v.tenant, s.tenant) = %s)`

// undecidedReasons are the reasons of effects that only a person releases.
const undecidedReasons = `('sequence_key_missing', 'sequence_number_missing', 'sequence_number_taken', 'sequence_time_ahead')`

// unacknowledged says of a refusal f that no operator has acknowledged its source, cause and peer.
const unacknowledged = `NOT EXISTS (SELECT FROM refusal_acknowledgement a WHERE a.source_id = f.source_id AND a.cause = f.cause AND a.peer = coalesce(f.peer, ''))`

// ofSource is the condition for rows without an event.
const ofSource = `s.tenant = %s`

// statements read route by route or source by source if the index begins with that.
var statements = []statement{
	{kind: Indeterminate, by: "route", seen: `
    SELECT r.id AS route_id, e.id, NULL::timestamptz AS at, e.event_id
    FROM route r
    CROSS JOIN LATERAL (
        SELECT e.id, e.event_id FROM effect e WHERE e.route_id = r.id AND e.state = 'indeterminate'{theirs e.event_id} ORDER BY e.route_id, e.id LIMIT $1) e
    LIMIT $1`},
	{kind: Dead, by: "route", seen: `
    SELECT e.route_id, e.id, NULL::timestamptz AS at, e.event_id FROM effect e WHERE e.state = 'dead'{theirs e.event_id} ORDER BY e.id LIMIT $1`},
	// The newest, so that discarded events do not hide others. An event that has an effect is no longer a dead letter.
	{kind: Unusable, by: "source", tenant: `coalesce(k.tenant, s.tenant) = %s`, waits: `k.waits`, seen: `
    SELECT d.source_id, d.id, NULL::timestamptz AS at, d.id AS event_id, d.tenant,
        d.discarded_at IS NULL AND (SELECT true FROM effect x WHERE x.event_id = d.id LIMIT 1) IS NULL AS waits
    FROM (
        SELECT e.source_id, e.id, e.tenant, e.discarded_at FROM inbox_event e
        WHERE e.admission IN ('unusable', 'beyond_retention'){theirs e.id}{if e.discarded_at IS NULL AND (SELECT true FROM effect x WHERE x.event_id = e.id LIMIT 1) IS NULL}
        ORDER BY e.id DESC LIMIT $1) d`},
	{kind: Blocked, by: "route", seen: `
    SELECT r.id AS route_id, NULL::uuid AS id, m.updated_at AS at, (SELECT e.event_id FROM effect e WHERE e.id = m.blocked_by) AS event_id
    FROM route r
    CROSS JOIN LATERAL (
        SELECT m.updated_at, m.blocked_by FROM stream m WHERE m.route_id = r.id AND m.blocked_by IS NOT NULL{theirs (SELECT b.event_id FROM effect b WHERE b.id = m.blocked_by)} ORDER BY m.route_id, m.id LIMIT $1) m
    LIMIT $1`},
	{kind: Gaps, by: "route", seen: `
    SELECT m.route_id, NULL::uuid AS id, m.gap_since AS at, (
            SELECT e.event_id FROM effect e WHERE e.route_id = m.route_id AND e.sequence_key_hash = m.key_hash
            ORDER BY e.sequence_number DESC, e.id DESC LIMIT 1) AS event_id
    FROM stream m WHERE m.gap_since < now() - interval '5 minutes'{theirs (
            SELECT e.event_id FROM effect e WHERE e.route_id = m.route_id AND e.sequence_key_hash = m.key_hash
            ORDER BY e.sequence_number DESC, e.id DESC LIMIT 1)}
    ORDER BY m.gap_since LIMIT $1`},
	{kind: Undecided, by: "route", waits: `k.reason IN ` + undecidedReasons, seen: `
    SELECT r.id AS route_id, e.id, NULL::timestamptz AS at, e.event_id, e.reason
    FROM route r
    CROSS JOIN LATERAL (
        SELECT e.id, e.event_id, e.reason FROM effect e 
        WHERE e.route_id = r.id AND e.state = 'held'{if e.reason IN ` + undecidedReasons + `}{theirs e.event_id} ORDER BY e.route_id, e.id LIMIT $1) e
    LIMIT $1`},
	{kind: Conflicts, by: "source", waits: `k.admitted_at IS NULL AND k.dismissed_at IS NULL`, seen: `
    SELECT o.id AS source_id, NULL::uuid AS id, c.first_seen_at AS at, c.event_id, c.admitted_at, c.dismissed_at
    FROM source o
    CROSS JOIN LATERAL (
        SELECT c.first_seen_at, c.event_id, c.admitted_at, c.dismissed_at FROM conflict c
        WHERE c.source_id = o.id{if c.admitted_at IS NULL AND c.dismissed_at IS NULL}{theirs c.event_id} ORDER BY c.source_id, c.last_seen_at DESC LIMIT $1) c
    LIMIT $1`},
	{kind: RefusedOutbox, by: "source", tenant: ofSource, seen: `
    SELECT o.id AS source_id, NULL::uuid AS id, x.created_at AS at, NULL::uuid AS event_id
    FROM (SELECT b.source, b.created_at FROM outbox b WHERE b.refused_at IS NOT NULL{tenant (SELECT o.tenant FROM source o WHERE coalesce(o.key_name, o.name) = b.source)}
        ORDER BY b.id LIMIT $1) x
    JOIN source o ON coalesce(o.key_name, o.name) = x.source`},
	// Of the effects that wait for a time, only those due first are read; of the held ones, the oldest.
	{kind: Stranded, by: "route", seen: `
    SELECT e.route_id, e.id, NULL::timestamptz AS at, e.event_id
    FROM (SELECT d.route_id, d.id, d.event_id FROM effect d WHERE d.next_at IS NOT NULL{theirs d.event_id} ORDER BY d.next_at, d.id LIMIT $1) e
    JOIN route r ON r.id = e.route_id AND ` + row.GoneRoute + `
    UNION ALL
    SELECT r.id, h.id, NULL, h.event_id
    FROM route r
    CROSS JOIN LATERAL (
        SELECT h.id, h.event_id FROM effect h WHERE h.route_id = r.id AND h.state = 'held' AND h.next_at IS NULL{theirs h.event_id} ORDER BY h.route_id, h.id LIMIT $1) h
    WHERE ` + row.GoneRoute},
	{kind: Refusals, by: "source", tenant: ofSource, waits: strings.ReplaceAll(unacknowledged, "f.", "k."), seen: `
    SELECT o.id AS source_id, f.id, f.received_at AS at, NULL::uuid AS event_id, f.cause, f.peer
    FROM source o
    CROSS JOIN LATERAL (
        SELECT f.id, f.received_at, f.cause, f.peer FROM refusal f
        WHERE f.source_id = o.id AND f.id >= $2{if ` + unacknowledged + `}{tenant o.tenant} ORDER BY f.source_id, f.id LIMIT $1) f
    LIMIT $1`},
}

// conditions finds the conditions in braces in a statement's seen.
var conditions = regexp.MustCompile(`\{(if|theirs|tenant) ([^}]*)\}`)

// sql counts by place, and over all rows of seen: a count that reached the bound means "at least". Its last row has no
// place and says that the bound was reached. until is how long after the beginning of the transaction the conditions
// apply.
func (s *statement) sql(tenant bool, until time.Duration) string {
	var b strings.Builder
	at := "$2"
	if s.kind == Refusals {
		at = "$3"
	}
	seen := conditions.ReplaceAllStringFunc(s.seen, func(text string) string {
		kind, condition := conditions.FindStringSubmatch(text)[1], conditions.FindStringSubmatch(text)[2]
		switch {
		case kind != "if" && !tenant:
			return ""
		case kind == "theirs":
			condition = "(SELECT coalesce(v.tenant, w.tenant) FROM inbox_event v JOIN source w ON w.id = v.source_id WHERE v.id = " + condition + ") = " + at
		case kind == "tenant":
			condition += " = " + at
		}
		return fmt.Sprintf("\n        AND CASE WHEN clock_timestamp() > now() + interval '%d milliseconds' THEN true ELSE %s END", until.Milliseconds(), condition)
	})
	b.WriteString("WITH seen AS MATERIALIZED (" + seen + ")\n")
	route, join := "''", "JOIN source s ON s.id = k.source_id"
	if s.by == "route" {
		route, join = "r.name", "JOIN route r ON r.id = k.route_id JOIN source s ON s.id = r.source_id"
	}
	b.WriteString("SELECT s.name, " + route + ", count(*), min(k.id::text)::uuid, min(k.at), (SELECT count(*) FROM seen)\nFROM seen k " + join)
	var all []string
	if s.waits != "" {
		all = append(all, s.waits)
	}
	if tenant {
		all = append(all, strings.Replace(cmp.Or(s.tenant, ofEvent), "%s", at, 1))
	}
	if len(all) > 0 {
		b.WriteString("\nWHERE " + strings.Join(all, " AND "))
	}
	b.WriteString("\nGROUP BY 1, 2\nUNION ALL\nSELECT '', '', 0, NULL, NULL, n.count FROM (SELECT count(*) FROM seen) n WHERE n.count >= $1\nORDER BY 3 DESC, 1, 2")
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

	// The database belongs to no tenant. The last row is where it is now.
	readUndeclared = `
SELECT count(*), min(h.began_at)
FROM (SELECT d.verdict, d.began_at FROM database_history d ORDER BY d.id DESC LIMIT least($1::bigint, 1)) h
WHERE h.verdict = 'undeclared' AND $2::text = ''`

	// Processes belong to no tenant. The interval is node.Silence.
	readNotReloaded = `
SELECT count(*), min(p.not_reloaded_at)
FROM (
    SELECT n.not_reloaded_at FROM node n
    WHERE n.not_reloaded IS NOT NULL AND n.heartbeat > now() - interval '30 s' AND $2::text = ''
    LIMIT $1) p`

	readStandstills = `
SELECT count(*), min(p.at)
FROM (
    SELECT coalesce(r.next_at, r.started_at, r.created_at) AS at FROM replay r
    WHERE r.state IN ('planning', 'running') AND coalesce(r.next_at, r.started_at, r.created_at) < now() - interval '10 minutes'
        AND ($2::text = '' OR r.scope->>'tenant' = $2)
    LIMIT $1) p`
)
