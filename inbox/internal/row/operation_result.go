package row

// LockOperations locks the events of operations. Rendering a result takes this lock, as resolving does, so that no result
// is stored of effects that another transaction is about to change. The events of the owners of duplicates are locked
// too.
const LockOperations = `
SELECT id FROM inbox_event
WHERE id = ANY ($1::uuid[]) OR id = ANY (ARRAY (
    SELECT o.event_id FROM effect e JOIN effect o ON o.id = e.duplicate_of WHERE e.event_id = ANY ($1::uuid[])))
ORDER BY id FOR NO KEY UPDATE`

// ForgetResults deletes results that are not "done". They were true when they were rendered; after their effects have
// moved on, they are rendered again.
const ForgetResults = `
DELETE FROM operation_result d
WHERE d.status <> 'done' AND d.event_id = ANY (ARRAY (
    SELECT unnest($1::uuid[])
    UNION ALL
    SELECT f.event_id FROM effect f WHERE f.duplicate_of = ANY ($2::uuid[]) AND f.duplicate_of IS NOT NULL))`
