package prune

import (
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// shelf is a table with sealed columns that share one key.
type shelf struct {
	table   string
	columns []string

	// byClass means that the primary key begins with the class.
	byClass bool

	// page returns the next rows after ($2, $3) of class $1 by primary key, at most $4: row, item, whether it is under
	// another key than $5, and its size.
	page string

	// read locks the rows ($1 rows, $2 items) and returns row, item, the row and item of the place, the key and the
	// values. It skips a row that another transaction has locked, because that row is being changed. write stores the
	// resealed values.
	read, write string
}

// resealed is the database row of a value that is sealed again.
type resealed struct {
	row      inbox.ID
	item     int64
	keyID    *int32
	one, two []byte
}

var resealedColumns = row.ColumnsFrom(1,
	row.UUID("id", func(r *resealed) inbox.ID { return r.row }),
	row.Bigint("item", func(r *resealed) int64 { return r.item }),
	row.Int("key_id", func(r *resealed) *int32 { return r.keyID }),
	row.Bytes("one", func(r *resealed) []byte { return r.one }),
	row.Bytes("two", func(r *resealed) []byte { return r.two }),
)

// resealedRows is the beginning of each write; $6 is the class.
var resealedRows = `unnest(` + resealedColumns.Arrays() + `) AS a (` + resealedColumns.Names() + `)`

// shelves are all tables with sealed values. A page is read by primary key and not by key id, because an index for a
// yearly task is not worth its cost.
var shelves = []shelf{
	{
		table: "inbox_body", columns: []string{"headers", "body"}, byClass: true,
		page: `SELECT id, 0::bigint, key_id IS DISTINCT FROM $5, octet_length(body) FROM inbox_body
WHERE class = $1 AND id > $2 AND $3::bigint >= 0 ORDER BY id LIMIT $4`,
		read: `SELECT b.id, 0::bigint, b.id, 0::bigint, b.key_id, b.headers, b.body FROM inbox_body b
WHERE b.class = $3 AND b.id = ANY ($1::uuid[]) AND cardinality($2::bigint[]) >= 0 ORDER BY b.id FOR UPDATE OF b SKIP LOCKED`,
		write: `UPDATE inbox_body b SET headers = a.one, body = a.two, key_id = a.key_id
FROM ` + resealedRows + `
WHERE b.class = $6 AND b.id = a.id`,
	},
	{
		table: "effect", columns: []string{"rendered"},
		page: `SELECT id, 0::bigint, rendered IS NOT NULL AND rendered_key_id IS DISTINCT FROM $5, coalesce(octet_length(rendered), 0) FROM effect
WHERE $1::text = '' AND id > $2 AND $3::bigint >= 0 ORDER BY id LIMIT $4`,
		read: `SELECT e.id, 0::bigint, e.id, 0::bigint, e.rendered_key_id, e.rendered, NULL::bytea FROM effect e
WHERE e.id = ANY ($1::uuid[]) AND cardinality($2::bigint[]) >= 0 AND $3::text = '' AND e.rendered IS NOT NULL
ORDER BY e.id FOR UPDATE OF e SKIP LOCKED`,
		write: `UPDATE effect e SET rendered = a.one, rendered_key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND e.id = a.id`,
	},
	{
		table: "effect", columns: []string{"fetched"},
		page: `SELECT id, 0::bigint, fetched IS NOT NULL AND fetched_key_id IS DISTINCT FROM $5, coalesce(octet_length(fetched), 0) FROM effect
WHERE $1::text = '' AND id > $2 AND $3::bigint >= 0 ORDER BY id LIMIT $4`,
		read: `SELECT e.id, 0::bigint, e.id, 0::bigint, e.fetched_key_id, e.fetched, NULL::bytea FROM effect e
WHERE e.id = ANY ($1::uuid[]) AND cardinality($2::bigint[]) >= 0 AND $3::text = '' AND e.fetched IS NOT NULL
ORDER BY e.id FOR UPDATE OF e SKIP LOCKED`,
		write: `UPDATE effect e SET fetched = a.one, fetched_key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND e.id = a.id`,
	},
	{
		table: "effect", columns: []string{"result"},
		page: `SELECT id, 0::bigint, result IS NOT NULL AND result_key_id IS DISTINCT FROM $5, coalesce(octet_length(result), 0) FROM effect
WHERE $1::text = '' AND id > $2 AND $3::bigint >= 0 ORDER BY id LIMIT $4`,
		read: `SELECT e.id, 0::bigint, coalesce(e.duplicate_of, e.id), 0::bigint, e.result_key_id, e.result, NULL::bytea FROM effect e
WHERE e.id = ANY ($1::uuid[]) AND cardinality($2::bigint[]) >= 0 AND $3::text = '' AND e.result IS NOT NULL
ORDER BY e.id FOR UPDATE OF e SKIP LOCKED`,
		write: `UPDATE effect e SET result = a.one, result_key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND e.id = a.id`,
	},
	{
		table: "effect_attempt", columns: []string{"excerpt"},
		page: `SELECT effect_id, version::bigint << 32 | attempt, (excerpt IS NOT NULL OR excerpt_sealed IS NOT NULL) AND excerpt_key_id IS DISTINCT FROM $5, 2048 FROM effect_attempt
WHERE $1::text = '' AND (effect_id, version, attempt) > ($2, ($3::bigint >> 32)::int, ($3::bigint & 4294967295)::int)
ORDER BY effect_id, version, attempt LIMIT $4`,
		read: `SELECT t.effect_id, a.item, t.effect_id, 0::bigint, t.excerpt_key_id, coalesce(t.excerpt_sealed, convert_to(t.excerpt, 'UTF8')), NULL::bytea
FROM unnest($1::uuid[], $2::bigint[]) AS a (id, item)
JOIN effect_attempt t ON t.effect_id = a.id AND t.version = (a.item >> 32)::int AND t.attempt = (a.item & 4294967295)::int
WHERE $3::text = '' AND (t.excerpt IS NOT NULL OR t.excerpt_sealed IS NOT NULL)
ORDER BY t.effect_id, t.version, t.attempt FOR UPDATE OF t SKIP LOCKED`,
		write: `UPDATE effect_attempt t SET excerpt = NULL, excerpt_sealed = a.one, excerpt_key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND t.effect_id = a.id AND t.version = (a.item >> 32)::int AND t.attempt = (a.item & 4294967295)::int`,
	},
	{
		table: "operation_result", columns: []string{"document"},
		page: `SELECT event_id, 0::bigint, key_id IS DISTINCT FROM $5, octet_length(document) FROM operation_result
WHERE $1::text = '' AND event_id > $2 AND $3::bigint >= 0 ORDER BY event_id LIMIT $4`,
		read: `SELECT d.event_id, 0::bigint, d.event_id, 0::bigint, d.key_id, d.document, NULL::bytea FROM operation_result d
WHERE d.event_id = ANY ($1::uuid[]) AND cardinality($2::bigint[]) >= 0 AND $3::text = '' ORDER BY d.event_id FOR UPDATE OF d SKIP LOCKED`,
		write: `UPDATE operation_result d SET document = a.one, key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND d.event_id = a.id`,
	},
	{
		table: "refusal", columns: []string{"headers", "body"},
		page: `SELECT id, 0::bigint, whole AND key_id IS DISTINCT FROM $5, coalesce(octet_length(body), 0) FROM refusal
WHERE $1::text = '' AND id > $2 AND $3::bigint >= 0 ORDER BY id LIMIT $4`,
		read: `SELECT r.id, 0::bigint, r.id, 0::bigint, r.key_id, r.headers, r.body FROM refusal r
WHERE r.id = ANY ($1::uuid[]) AND cardinality($2::bigint[]) >= 0 AND $3::text = '' AND r.whole ORDER BY r.id FOR UPDATE OF r SKIP LOCKED`,
		write: `UPDATE refusal r SET headers = a.one, body = a.two, key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND r.id = a.id`,
	},
	{
		table: "conflict", columns: []string{"headers", "body"},
		page: `SELECT id, 0::bigint, key_id IS DISTINCT FROM $5, octet_length(body) FROM conflict
WHERE $1::text = '' AND id > $2 AND $3::bigint >= 0 ORDER BY id LIMIT $4`,
		read: `SELECT c.id, 0::bigint, c.id, 0::bigint, c.key_id, c.headers, c.body FROM conflict c
WHERE c.id = ANY ($1::uuid[]) AND cardinality($2::bigint[]) >= 0 AND $3::text = '' ORDER BY c.id FOR UPDATE OF c SKIP LOCKED`,
		write: `UPDATE conflict c SET headers = a.one, body = a.two, key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND c.id = a.id`,
	},
	{
		table: "conflict", columns: []string{"sequence"},
		page: `SELECT id, 0::bigint, (sequence_sealed IS NOT NULL OR sequence_key <> '' OR sequence_number <> '') AND sequence_key_id IS DISTINCT FROM $5, 256 FROM conflict
WHERE $1::text = '' AND id > $2 AND $3::bigint >= 0 ORDER BY id LIMIT $4`,
		// Plain values become the JSON of [place.ConflictSequence]; its reader skips the line breaks of base64.
		read: `SELECT c.id, 0::bigint, c.id, 0::bigint, c.sequence_key_id, coalesce(c.sequence_sealed,
    convert_to(json_build_object('Key', encode(c.sequence_key, 'base64'), 'Number', encode(c.sequence_number, 'base64'))::text, 'UTF8')), NULL::bytea FROM conflict c
WHERE c.id = ANY ($1::uuid[]) AND cardinality($2::bigint[]) >= 0 AND $3::text = ''
    AND (c.sequence_sealed IS NOT NULL OR c.sequence_key <> '' OR c.sequence_number <> '') ORDER BY c.id FOR UPDATE OF c SKIP LOCKED`,
		write: `UPDATE conflict c SET sequence_key = '', sequence_number = '', sequence_sealed = a.one, sequence_key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND c.id = a.id`,
	},
	{
		// A stream's id is a number: all rows have one uuid and differ by the item.
		table: "stream", columns: []string{"key_label"},
		page: `SELECT '00000000-0000-0000-0000-000000000001'::uuid, id, (key_label IS NOT NULL OR key_label_sealed IS NOT NULL) AND key_label_key_id IS DISTINCT FROM $5, 128 FROM stream
WHERE $1::text = '' AND $2::uuid IS NOT NULL AND id > $3 ORDER BY id LIMIT $4`,
		read: `SELECT '00000000-0000-0000-0000-000000000001'::uuid, s.id, encode(substr(s.key_hash, 1, 16), 'hex')::uuid, s.route_id::bigint, s.key_label_key_id,
    coalesce(s.key_label_sealed, convert_to(s.key_label, 'UTF8')), NULL::bytea FROM stream s
WHERE cardinality($1::uuid[]) >= 0 AND s.id = ANY ($2::bigint[]) AND $3::text = '' AND (s.key_label IS NOT NULL OR s.key_label_sealed IS NOT NULL)
ORDER BY s.id FOR UPDATE OF s SKIP LOCKED`,
		write: `UPDATE stream s SET key_label = NULL, key_label_sealed = a.one, key_label_key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND s.id = a.item`,
	},
	secretShelf("order_secret", "secret"),
	secretShelf("source_definition", "content"),
	{
		table: "suppression", columns: []string{"address"},
		page: `SELECT id, 0::bigint, address IS NOT NULL AND key_id IS DISTINCT FROM $5, coalesce(octet_length(address), 0) FROM suppression
WHERE $1::text = '' AND id > $2 AND $3::bigint >= 0 ORDER BY id LIMIT $4`,
		read: `SELECT x.id, 0::bigint, x.id, 0::bigint, x.key_id, x.address, NULL::bytea FROM suppression x
WHERE x.id = ANY ($1::uuid[]) AND cardinality($2::bigint[]) >= 0 AND $3::text = '' AND x.address IS NOT NULL ORDER BY x.id FOR UPDATE OF x SKIP LOCKED`,
		write: `UPDATE suppression x SET address = a.one, key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND x.id = a.id`,
	},
	{
		table: "replay_item", columns: []string{"diff"},
		page: `SELECT replay_id, position, diff IS NOT NULL AND diff_key_id IS DISTINCT FROM $5, coalesce(octet_length(diff), 0) FROM replay_item
WHERE $1::text = '' AND (replay_id, position) > ($2, $3) ORDER BY replay_id, position LIMIT $4`,
		read: `SELECT i.replay_id, i.position, i.replay_id, i.position, i.diff_key_id, i.diff, NULL::bytea
FROM unnest($1::uuid[], $2::bigint[]) AS a (id, item)
JOIN replay_item i ON i.replay_id = a.id AND i.position = a.item
WHERE $3::text = '' AND i.diff IS NOT NULL ORDER BY i.replay_id, i.position FOR UPDATE OF i SKIP LOCKED`,
		write: `UPDATE replay_item i SET diff = a.one, diff_key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND i.replay_id = a.id AND i.position = a.item`,
	},
}

// secretShelf is a table with a row for each secret, which is always sealed.
func secretShelf(table, column string) shelf {
	return shelf{
		table: table, columns: []string{column},
		page: `SELECT id, 0::bigint, key_id IS DISTINCT FROM $5, octet_length(` + column + `) FROM ` + table + `
WHERE $1::text = '' AND id > $2 AND $3::bigint >= 0 ORDER BY id LIMIT $4`,
		read: `SELECT x.id, 0::bigint, x.id, 0::bigint, x.key_id, x.` + column + `, NULL::bytea FROM ` + table + ` x
WHERE x.id = ANY ($1::uuid[]) AND cardinality($2::bigint[]) >= 0 AND $3::text = '' ORDER BY x.id FOR UPDATE OF x SKIP LOCKED`,
		write: `UPDATE ` + table + ` x SET ` + column + ` = a.one, key_id = a.key_id
FROM ` + resealedRows + `
WHERE $6::text = '' AND x.id = a.id`,
	}
}

// The classes of bodies, including those that are no longer in the configuration.
const bodyClasses = `
SELECT substr(c.relname, length('inbox_body_') + 1)
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'inbox_body'::regclass
ORDER BY 1`

// The statement reads all rows, and runs only for a person who is about to remove a key.
const countKeys = `
SELECT 'inbox_body', 'body', coalesce(key_id, 0), count(*) FROM inbox_body GROUP BY 3
UNION ALL SELECT 'effect', 'rendered', coalesce(rendered_key_id, 0), count(*) FROM effect WHERE rendered IS NOT NULL GROUP BY 3
UNION ALL SELECT 'effect', 'fetched', coalesce(fetched_key_id, 0), count(*) FROM effect WHERE fetched IS NOT NULL GROUP BY 3
UNION ALL SELECT 'effect', 'result', coalesce(result_key_id, 0), count(*) FROM effect WHERE result IS NOT NULL GROUP BY 3
UNION ALL SELECT 'effect_attempt', 'excerpt', coalesce(excerpt_key_id, 0), count(*) FROM effect_attempt
    WHERE excerpt IS NOT NULL OR excerpt_sealed IS NOT NULL GROUP BY 3
UNION ALL SELECT 'operation_result', 'document', coalesce(key_id, 0), count(*) FROM operation_result GROUP BY 3
UNION ALL SELECT 'refusal', 'body', coalesce(key_id, 0), count(*) FROM refusal WHERE whole GROUP BY 3
UNION ALL SELECT 'conflict', 'body', coalesce(key_id, 0), count(*) FROM conflict GROUP BY 3
UNION ALL SELECT 'conflict', 'sequence', coalesce(sequence_key_id, 0), count(*) FROM conflict
    WHERE sequence_sealed IS NOT NULL OR sequence_key <> '' OR sequence_number <> '' GROUP BY 3
UNION ALL SELECT 'stream', 'key_label', coalesce(key_label_key_id, 0), count(*) FROM stream
    WHERE key_label IS NOT NULL OR key_label_sealed IS NOT NULL GROUP BY 3
UNION ALL SELECT 'order_secret', 'secret', key_id, count(*) FROM order_secret GROUP BY 3
UNION ALL SELECT 'source_definition', 'content', key_id, count(*) FROM source_definition GROUP BY 3
UNION ALL SELECT 'suppression', 'address', coalesce(key_id, 0), count(*) FROM suppression WHERE address IS NOT NULL GROUP BY 3
UNION ALL SELECT 'event_label', 'value', 0, sum(l.n)::bigint FROM (
    SELECT count(*) AS n FROM event_label WHERE secret_id IS NULL
    UNION ALL SELECT coalesce(sum(cardinality(event_id)), 0) FROM event_label_batch WHERE secret_id IS NULL) l HAVING sum(l.n) > 0
UNION ALL SELECT 'archive_object', 'body', k.id, sum(k.lines)::bigint
    FROM archive_object a CROSS JOIN LATERAL unnest(a.key_ids, a.key_lines) AS k (id, lines) WHERE a.state = 'stored' GROUP BY 3
UNION ALL SELECT 'replay_item', 'diff', coalesce(diff_key_id, 0), count(*) FROM replay_item WHERE diff IS NOT NULL GROUP BY 3
ORDER BY 1, 2, 3`
