package inbox

import (
	"bytes"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/sequence"
)

// orderShown is how many effects of a stream a decision is shown at first.
const orderShown = 8

// In the order of locks, streams come before effects, sorted by their ids. The statement skips a stream that
// another transaction has locked: no transaction waits for a stream while it has others locked, and no group
// waits for one of its streams.
const lockStreams = `
SELECT s.route_id, s.key_hash, s.id, coalesce(s.applied::text, ''), s.gap_since, s.warned_at, s.in_flight, s.blocked_by, s.started_at, clock_timestamp(), coalesce(s.definition_id, 0)
FROM stream s
JOIN unnest($1::int[], $2::bytea[]) AS k (route_id, key_hash) ON s.route_id = k.route_id AND s.key_hash = k.key_hash
ORDER BY s.id
FOR UPDATE OF s SKIP LOCKED`

// The gate makes streams with the first effect of a key; this statement is for effects that were recorded another
// way.
const insertMissingStreams = `
INSERT INTO stream (route_id, key_hash, definition_id)
SELECT DISTINCT k.route_id, k.key_hash, nullif(k.definition, 0)
FROM unnest($1::int[], $2::bytea[], $3::bigint[]) AS k (route_id, key_hash, definition)
WHERE NOT EXISTS (SELECT FROM stream s WHERE s.route_id = k.route_id AND s.key_hash = k.key_hash)
ORDER BY k.route_id, k.key_hash
ON CONFLICT ON CONSTRAINT stream_key DO NOTHING`

// The data that a decision needs about each stream, read after its lock was obtained. Each part reads a few rows
// from one end of an index. Part 1 reads the effects above the applied number, one more than shown, to tell
// whether there are more; it leaves out ties. Package sequence says what each mode needs; mode arrival also needs
// the indeterminate effect that blocks. Part 6 reads the effect in flight; part 7, for a route whose policy this
// process does not know, the effect whose worker will decide; part 8, for a route that is no longer ordered, the
// effects that are still held.
const readOrder = `
SELECT k.place, e.part, e.id, coalesce(e.sequence_number::text, ''), e.state, e.filtered, coalesce(e.next_at <= now(), false),
    coalesce(e.job_id, 0),
    CASE WHEN e.part = 3 OR k.mode = 'latest' AND e.sequence_number = s.applied THEN EXISTS (
        SELECT FROM effect t WHERE t.route_id = s.route_id AND t.sequence_key_hash = s.key_hash AND t.sequence_number = e.sequence_number AND t.id <> e.id)
    ELSE false END,
    e.order_waived
FROM unnest($1::int[], $2::bytea[], $3::text[]) WITH ORDINALITY AS k (route_id, key_hash, mode, place)
JOIN stream s ON s.route_id = k.route_id AND s.key_hash = k.key_hash
CROSS JOIN LATERAL (
    (SELECT 1 AS part, e.id, e.sequence_number, e.state, e.filtered, e.next_at, e.job_id, e.order_waived FROM effect e
    WHERE k.mode = 'contiguous' AND e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash
        AND e.sequence_number > coalesce(s.applied, '-Infinity') AND e.reason IS DISTINCT FROM 'sequence_number_taken'
    ORDER BY e.sequence_number, e.id
    LIMIT $4::int + 1)
    UNION ALL
    (SELECT 2, e.id, e.sequence_number, e.state, e.filtered, e.next_at, e.job_id, e.order_waived FROM effect e
    WHERE k.mode = 'contiguous' AND e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash
        AND e.sequence_number > coalesce(s.applied, '-Infinity') AND e.reason IS DISTINCT FROM 'sequence_number_taken'
        AND e.state IN ('pending', 'retry', 'held')
    ORDER BY e.sequence_number, e.id
    LIMIT 1)
    UNION ALL
    (SELECT 3, e.id, e.sequence_number, e.state, e.filtered, e.next_at, e.job_id, e.order_waived FROM effect e
    WHERE k.mode = 'contiguous' AND e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash
        AND e.sequence_number <= s.applied AND e.reason IS DISTINCT FROM 'sequence_number_taken'
        AND e.state IN ('pending', 'retry', 'held')
    ORDER BY e.sequence_number, e.id
    LIMIT $4)
    UNION ALL
    (SELECT 4, e.id, e.sequence_number, e.state, e.filtered, e.next_at, e.job_id, e.order_waived FROM effect e
    WHERE k.mode = 'latest' AND e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash
        AND e.sequence_number IS NOT NULL AND e.reason IS DISTINCT FROM 'sequence_number_taken'
        AND e.state IN ('pending', 'retry', 'held', 'claimed')
    ORDER BY e.sequence_number DESC, e.id DESC
    LIMIT $4)
    UNION ALL
    (SELECT 5, e.id, e.sequence_number, e.state, e.filtered, e.next_at, e.job_id, e.order_waived FROM effect e
    WHERE k.mode = 'arrival' AND e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash
        AND e.state IN ('pending', 'retry', 'held', 'claimed')
    ORDER BY e.sequence_number, e.id
    LIMIT $4)
    UNION ALL
    (SELECT 5, e.id, e.sequence_number, e.state, e.filtered, e.next_at, e.job_id, e.order_waived FROM effect e
    WHERE k.mode = 'arrival' AND e.id = s.blocked_by AND e.state = 'indeterminate')
    UNION ALL
    (SELECT 6, e.id, e.sequence_number, e.state, e.filtered, e.next_at, e.job_id, e.order_waived FROM effect e WHERE e.id = s.in_flight)
    UNION ALL
    (SELECT 7, e.id, e.sequence_number, e.state, e.filtered, e.next_at, e.job_id, e.order_waived FROM effect e
    WHERE k.mode = '' AND e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash
        AND e.state = 'held' AND e.sequence_number IS NOT NULL AND e.reason IS DISTINCT FROM 'sequence_number_taken'
    ORDER BY e.sequence_number, e.id
    LIMIT 1)
    UNION ALL
    (SELECT 8, e.id, e.sequence_number, e.state, e.filtered, e.next_at, e.job_id, e.order_waived FROM effect e
    WHERE k.mode = 'none' AND e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash AND e.state = 'held'
    ORDER BY e.sequence_number, e.id
    LIMIT $4)) e`

// The effects that a decision is about. Those to be claimed are locked, except those that another transaction has
// locked.
const (
	readAsked = `
SELECT e.route_id, e.sequence_key_hash, e.id, coalesce(e.sequence_number::text, ''), e.state, e.filtered, coalesce(e.next_at <= now(), false),
    coalesce(e.job_id, 0), coalesce(e.reason, '') = 'sequence_number_taken', e.order_waived
FROM effect e
WHERE e.id = ANY ($1::uuid[])
ORDER BY e.id`
	lockAsked = readAsked + `
FOR UPDATE OF e SKIP LOCKED`
)

// orderRow is one effect as a decision sees it.
type orderRow struct {
	id       ID
	number   sequence.Number
	state    EffectState
	filtered bool
	aside    bool
	twin     bool
	waived   bool // a person has decided that it runs although its number is taken
	due      bool
	jobID    int64
}

// orderStream is one stream while its lock is held.
type orderStream struct {
	routeID int32
	hash    []byte
	id      int64 // 0 unless its row is locked by us

	definition int64            // that it was made by; 0 is the route's first
	policy     *sequence.Policy // of that definition, if it is not the route's here

	applied   sequence.Number
	gapSince  time.Time
	warnedAt  time.Time
	inFlight  ID
	blockedBy ID
	startedAt time.Time
	now       time.Time

	named map[ID]orderRow // to be claimed, or ended in this transaction
	rows  []orderRow
	busy  bool // the one in flight is claimed
	cut   bool
	shown sequence.Number
	full  bool // as many rows as are shown at most

	asks  []*orderAsk
	chain *orderAsk // claims the next effect for a worker that continues with the stream
}

// foundStream is a stream's row as [lockStreams] returns it, or no row.
type foundStream struct {
	routeID             *int32
	hash                []byte
	id                  *int64
	applied             *string
	gap, warned         *time.Time
	inFlight, blockedBy ID
	startedAt, now      *time.Time
	definition          *int64
}

// into returns the destinations of the row's columns.
func (f *foundStream) into() []any {
	return []any{&f.routeID, &f.hash, &f.id, &f.applied, &f.gap, &f.warned, &f.inFlight, &f.blockedBy, &f.startedAt, &f.now, &f.definition}
}

func (f *foundStream) stream() *orderStream {
	s := &orderStream{routeID: *f.routeID, hash: f.hash, id: *f.id, inFlight: f.inFlight, blockedBy: f.blockedBy, startedAt: *f.startedAt, now: *f.now, definition: *f.definition}
	s.applied, _ = sequence.ParseNumber(*f.applied) // ours, and therefore a number or none
	if f.gap != nil {
		s.gapSince = *f.gap
	}
	if f.warned != nil {
		s.warnedAt = *f.warned
	}
	return s
}

// forget clears what was read of the stream, before it is read again.
func (s *orderStream) forget() {
	s.rows, s.busy, s.cut, s.full, s.shown = s.rows[:0], false, false, false, sequence.Number{}
}

// add takes one row of [readOrder].
func (s *orderStream) add(part int, row orderRow) {
	switch part {
	case 1:
		if len(s.rows) == orderShown {
			s.cut = true
			return
		}
		s.shown = row.number
	case 6:
		s.busy = row.state == EffectClaimed
		return
	}
	for i := range s.rows {
		if s.rows[i].id == row.id {
			return
		}
	}
	s.rows = append(s.rows, row)
}

// sort brings in the named ones and puts all in their order.
func (s *orderStream) sort() {
	s.full = len(s.rows) >= orderShown
	for id, row := range s.named {
		if row.state == EffectSuperseded && s.asksFor(id) {
			continue // it was superseded before: its wake-up is there for the newest version
		}
		if !slices.ContainsFunc(s.rows, func(r orderRow) bool { return r.id == id }) && !row.number.IsZero() {
			s.rows = append(s.rows, row)
		}
	}
	slices.SortFunc(s.rows, compareRows)
}

// compareRows compares the places of two effects of a stream.
func compareRows(a, b orderRow) int {
	if d := a.number.Compare(b.number); d != 0 {
		return d
	}
	return bytes.Compare(a.id[:], b.id[:])
}

// view is the stream as package sequence knows it.
func (s *orderStream) view() sequence.Stream {
	view := sequence.Stream{
		Applied: s.applied, StartedAt: s.startedAt, GapSince: s.gapSince, Warned: !s.warnedAt.IsZero(), Cut: s.cut, Shown: s.shown,
		Effects: make([]sequence.Effect, len(s.rows)), Busy: s.busy,
	}
	for i := range s.rows {
		r := &s.rows[i]
		view.Effects[i] = sequence.Effect{Number: r.number, State: sequence.State(r.state), Filtered: r.filtered, Aside: r.aside, Twin: r.twin, Waived: r.waived}
	}
	return view
}
