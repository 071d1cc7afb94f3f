package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Point contains the counts of one minute or hour, which begins at At.
type Point struct {
	At time.Time `json:"at"`
	Counts

	// Waiting is how many effects waited for an attempt when a sample was taken in the minute, or at most in the samples of the hour,
	// among the 10,000 that are due first. OldestSeconds is how long ago the oldest of them had been recorded. Both are 0 if nothing
	// waited, while no process worked, and in the counts of one tenant.
	Waiting       int64 `json:"waiting"`
	OldestSeconds int64 `json:"oldest_seconds"`
}

// at returns the field in which a kind of a source, or of a route, is added up. It returns nil for a kind that a newer program counts.
func (p *Point) at(kind string, route bool) *int64 {
	switch kind {
	case waitingKind:
		return &p.Waiting
	case oldestKind:
		return &p.OldestSeconds
	}
	if k, ok := byName()[kind]; ok {
		return p.of(k, route)
	}
	return nil
}

// largest takes the maximum of the ages, and the sum of every other kind.
const largest = `CASE WHEN one.kind = '` + oldestKind + `' THEN max(%[1]s.n) ELSE sum(%[1]s.n) END`

// Series is a window minute by minute, or hour by hour.
type Series struct {
	// Step is how long each point is; the last one is not over yet.
	Step time.Duration `json:"-"`
	// Points are in the order of time, and there is one for each minute or hour.
	Points []Point `json:"points"`
}

func seriesQuery(f *Filter) (sql string, args []any, err error) {
	table, column, unit, n, err := f.window().step()
	if err != nil {
		return "", nil, err
	}
	q := query{args: []any{unit, n - 1, append(Names(), waitingKind, oldestKind)}}
	narrow := q.narrow(f)
	return `
SELECT c.at, one.kind, c.of_route, (` + fmt.Sprintf(largest, "c") + `)::bigint
FROM (SELECT date_bin($1::interval, now(), 'epoch') - $2::int * $1::interval AS since OFFSET 0) w
CROSS JOIN source s
CROSS JOIN unnest($3::text[]) AS one (kind)
CROSS JOIN LATERAL (
    SELECT k.` + column + ` AS at, k.route_id <> 0 AS of_route, ` + fmt.Sprintf(largest, "k") + ` AS n
    FROM ` + table + ` k
    WHERE k.source_id = s.id AND k.kind = one.kind AND k.` + column + ` >= w.since` + narrow + `
    GROUP BY 1, 2) c
WHERE true` + q.where.String() + `
GROUP BY 1, 2, 3`, q.args, nil
}

// Series returns the counts in the window, minute by minute or hour by hour, added up over everything that the filter
// takes.
func (r *Reader) Series(ctx context.Context, f Filter) (Series, error) {
	sql, args, err := seriesQuery(&f)
	if err != nil {
		return Series{}, err
	}
	_, _, unit, n, _ := f.window().step()
	since, _, err := r.ends(ctx, unit, n)
	if err != nil {
		return Series{}, err
	}
	out := Series{Step: unit, Points: make([]Point, n)}
	for i := range out.Points {
		out.Points[i].At = since.Add(time.Duration(i) * unit)
	}
	rows, err := r.db.Query(ctx, sql, args...)
	if err != nil {
		return Series{}, fmt.Errorf("reading counts: %w", err)
	}
	var (
		at    time.Time
		kind  string
		route bool
		sum   int64
	)
	_, err = pgx.ForEachRow(rows, []any{&at, &kind, &route, &sum}, func() error {
		i := int(at.Sub(since) / unit)
		if i < 0 { // the next minute may have begun since
			return nil
		}
		if field := out.Points[min(i, n-1)].at(kind, route); field != nil {
			*field += sum
		}
		return nil
	})
	if err != nil {
		return Series{}, fmt.Errorf("reading counts: %w", err)
	}
	return out, nil
}
