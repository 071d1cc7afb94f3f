package row

// MissingNumbers are the numbers that a stream waits for. They end before the first effect above the applied number, in any
// state, because a recorded number is not missing. A tie takes no place.
const MissingNumbers = `
SELECT (st.applied + 1)::text, (w.first - 1)::text
FROM stream st
CROSS JOIN LATERAL (
    SELECT min(e.sequence_number) AS first
    FROM effect e
    WHERE e.route_id = st.route_id AND e.sequence_key_hash = st.key_hash AND e.sequence_number > st.applied
        AND e.reason IS DISTINCT FROM 'sequence_number_taken') w
WHERE st.id = $1 AND st.gap_since IS NOT NULL AND w.first > st.applied + 1`
