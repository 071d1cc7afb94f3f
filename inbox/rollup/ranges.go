package rollup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Range is a stretch of time: From belongs to it, To does not.
type Range struct{ From, To time.Time }

const (
	// rangeMargin is the longest time between the receipt of an event and its count, allowing for differences between
	// the clocks of processes.
	rangeMargin = 2 * time.Minute

	// unflushed is how long after its last flush a process may have counted something before it died.
	unflushed = time.Hour
)

// Minutes of the last 47 hours, and hours before them. A process that has not ended and has not flushed may have counts
// that it has not written.
const readRanges = `
SELECT k.minute, k.minute + interval '1 minute'
FROM stat_minute k
WHERE k.source_id = (SELECT s.id FROM source s WHERE s.name = $1) AND k.kind = 'recorded'
    AND k.minute >= greatest($2::timestamptz, date_bin('1 hour', now(), 'epoch') - interval '46 hours') - interval '1 minute' AND k.minute < $3::timestamptz
UNION
SELECT k.hour, k.hour + interval '1 hour'
FROM stat_hour k
WHERE k.source_id = (SELECT s.id FROM source s WHERE s.name = $1) AND k.kind = 'recorded'
    AND k.hour >= $2::timestamptz - interval '1 hour' AND k.hour < least($3::timestamptz, date_bin('1 hour', now(), 'epoch') - interval '46 hours')
UNION
SELECT f.flushed_at - $4::bigint * interval '1 microsecond',
    CASE WHEN EXISTS (SELECT FROM node n WHERE n.id = f.node_id AND n.heartbeat > now() - interval '10 minutes') THEN now() + $4::bigint * interval '1 microsecond'
        ELSE f.flushed_at + $5::bigint * interval '1 microsecond' END
FROM stat_flush f
WHERE NOT f.ended`

const readCompleteness = `SELECT since + $1::bigint * interval '1 microsecond' FROM stat_completeness`

// EventRanges returns when a source had events, so that a list of a quiet source need not read the events of all
// others: an event of the source whose id was made from since to until, and not before known, is in one of the ranges.
// They are sorted newest first, and neither touch nor overlap. Before known they say nothing, and every time must be
// searched.
//
// Ranges are minutes for the last two days and hours before, and may contain no event. They include the time in which a
// process may have died with unwritten counts, which is the last minutes as long as one runs. There is one gap: events
// that a process recorded more than an hour after its last flush, if it died after its flushes had failed for all of
// that hour while the gate's commits succeeded.
func (r *Reader) EventRanges(ctx context.Context, source string, since, until time.Time) (ranges []Range, known time.Time, err error) {
	fail := func(err error) ([]Range, time.Time, error) {
		return nil, time.Time{}, fmt.Errorf("reading when source %s had events: %w", source, err)
	}
	rows, err := r.db.Query(ctx, readCompleteness, rangeMargin.Microseconds())
	if err != nil {
		return fail(err)
	}
	if _, err := pgx.ForEachRow(rows, []any{&known}, func() error { return nil }); err != nil {
		return fail(err)
	}
	rows, err = r.db.Query(ctx, readRanges, source, since, until, rangeMargin.Microseconds(), unflushed.Microseconds())
	if err != nil {
		return fail(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Range])
	if err != nil {
		return fail(err)
	}
	return joinRanges(all, since, until), known, nil
}

// joinRanges joins ranges that touch, within since and until, newest first.
func joinRanges(all []Range, since, until time.Time) []Range {
	slices.SortFunc(all, func(a, b Range) int { return a.From.Compare(b.From) })
	out := []Range{}
	for _, r := range all {
		if r.From.Before(since) {
			r.From = since
		}
		if r.To.After(until) {
			r.To = until
		}
		switch last := len(out) - 1; {
		case !r.From.Before(r.To):
		case last >= 0 && !r.From.After(out[last].To):
			if r.To.After(out[last].To) {
				out[last].To = r.To
			}
		default:
			out = append(out, r)
		}
	}
	slices.Reverse(out)
	return out
}
