package inbox

import "errors"

// ErrCalledAgain is returned for sending an effect again whose operation a later call
// repeats: the caller named this one as its parent, and got, or will get, what they
// wanted under another key.
var ErrCalledAgain = errors.New("a later call names the effect's operation as its parent: sent again, it may happen twice")

// CalledAgain says of an effect x whether a later call repeats it: an event whose
// `parent` is the event of x, or of a duplicate of x, or of such a later call. That
// call counts if it has an effect of the same route, whatever became of it: done, it
// happened; dead, it is the one to replay. With other routes it counts once all of it
// is settled; its effects may be pruned by then, which only happens to settled ones.
// A later call whose effect was discarded, or is x itself under the same effect key,
// does not count. A chain is followed for 16 calls.
//
// The index of parents is partial: of events that are no such calls, which are most,
// this is two lookups that find nothing. A later call's effects are summed up in one
// place, since the planner would rather hash those of the whole route.
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
            SELECT coalesce(bool_or(f.route_id = x.route_id AND coalesce(o.id, f.id) <> x.id AND coalesce(o.state, f.state) <> 'skipped'), false) AS same,
                coalesce(bool_and(coalesce(o.state, f.state) IN ('done', 'superseded', 'skipped') AND coalesce(o.id, f.id) <> x.id
                    AND coalesce(o.reason, f.reason, '') <> 'discarded'), l.admission = 'ok') AS settled
            FROM effect f
            LEFT JOIN effect o ON o.id = f.duplicate_of
            WHERE f.event_id = l.id) k
        WHERE k.same OR k.settled OR coalesce((SELECT d.status FROM operation_result d WHERE d.event_id = l.id), '') = 'done')
    ELSE false END`

// callsOf are the calls that an effect x is of: its own, and those of its duplicates.
const callsOf = `ARRAY (
        SELECT x.event_id
        UNION ALL
        SELECT d.event_id FROM effect d WHERE d.duplicate_of = x.id AND d.duplicate_of IS NOT NULL)`
