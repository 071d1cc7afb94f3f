package rollup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Window is a stretch of time that ends now.
type Window string

// The windows. Part of the API: never change.
const (
	// Hour is the last 60 minutes, by minutes.
	Hour Window = "1h"
	// Day is the last 24 hours, by hours.
	Day Window = "24h"
	// Week is the last 168 hours, by hours.
	Week Window = "7d"
)

// Windows are all of them.
func Windows() []Window { return []Window{Hour, Day, Week} }

// ErrWindow is returned for an unknown window.
var ErrWindow = errors.New("not a window; known are 1h, 24h and 7d")

// step returns the unit of a window, the table that has it, and how many of them the window has.
func (w Window) step() (table, column string, unit time.Duration, n int, err error) {
	switch w {
	case Hour:
		return "stat_minute", "minute", time.Minute, 60, nil
	case Day:
		return "stat_hour", "hour", time.Hour, 24, nil
	case Week:
		return "stat_hour", "hour", time.Hour, 7 * 24, nil
	}
	return "", "", 0, 0, fmt.Errorf("%q: %w", string(w), ErrWindow)
}

// Filter narrows the counts to read; a zero field does not. Names are the current ones.
type Filter struct {
	// Source and Route are names.
	Source, Route string
	// Target is the name of a target: the counts of all routes to it.
	Target string
	// Tenant owns the events. Refused requests count for the tenant of their source.
	Tenant string
	// Window defaults to [Hour].
	Window Window
}

// Counts are sums over a stretch of time.
type Counts struct {
	// Deliveries are counted by source. The counts of a route, also those that a filter by route or target selects, have none of
	// them: 0 means that they are not counted there.
	Recorded    int64 `json:"recorded"`
	Duplicates  int64 `json:"duplicates"`
	Conflicts   int64 `json:"conflicts"`
	Unusable    int64 `json:"unusable"`
	Suspected   int64 `json:"suspected"`
	LabelErrors int64 `json:"label_errors"`
	Refused     int64 `json:"refused"`
	Unavailable int64 `json:"unavailable"`

	// Effects are counted by route. The counts of a source itself have none of them.
	Done          int64 `json:"done"`
	Retried       int64 `json:"retried"`
	Dead          int64 `json:"dead"`
	Indeterminate int64 `json:"indeterminate"`

	// Acknowledged says how long acknowledgements took, from the headers of a delivery to its answer. They are counted by source.
	Acknowledged Latency `json:"acknowledged"`

	// Attempted says how long attempts took. They are counted by route.
	Attempted Latency `json:"attempted"`
}

// of returns the field in which a kind of a source, or of a route, is added up.
func (c *Counts) of(k Kind, route bool) *int64 {
	switch k { //nolint:exhaustive // the others are counts of a Latency
	case Recorded:
		return &c.Recorded
	case Duplicates:
		return &c.Duplicates
	case Conflicts:
		return &c.Conflicts
	case Unusable:
		return &c.Unusable
	case Suspected:
		return &c.Suspected
	case LabelErrors:
		return &c.LabelErrors
	case Refused:
		return &c.Refused
	case Unavailable:
		return &c.Unavailable
	case Done:
		return &c.Done
	case Retried:
		return &c.Retried
	case Dead:
		return &c.Dead
	case Indeterminate:
		return &c.Indeterminate
	}
	if route {
		return &c.Attempted[k-firstLatency]
	}
	return &c.Acknowledged[k-firstLatency]
}

// Plus adds other counts.
func (c *Counts) Plus(other *Counts) {
	for k := range firstLatency {
		*c.of(k, false) += *other.of(k, false)
	}
	for i := range latencies {
		c.Acknowledged[i] += other.Acknowledged[i]
		c.Attempted[i] += other.Attempted[i]
	}
}

// Sum contains the counts of one source or route for one tenant.
type Sum struct {
	Source string `json:"source"`
	// Route is empty for counts of the source itself.
	Route  string `json:"route,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Counts
}

// Sums are the counts in a window.
type Sums struct {
	// Since and Until are its ends: Since is the beginning of a minute or an hour, Until is now. The counts of a
	// process from the last ten seconds may be missing.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`

	// Rows are in the order of sources, routes and tenants. Where nothing happened there is no row.
	Rows []Sum `json:"rows"`
}

// Total adds up all rows. Counts of sources and of routes are of different kinds, so that nothing is in it twice.
func (s *Sums) Total() (total Counts) {
	for i := range s.Rows {
		total.Plus(&s.Rows[i].Counts)
	}
	return total
}

// PerSecond is the rate of a count in the window.
func (s *Sums) PerSecond(n int64) float64 {
	if seconds := s.Until.Sub(s.Since).Seconds(); seconds > 0 {
		return float64(n) / seconds
	}
	return 0
}

// Reader reads what recorders have written.
type Reader struct{ db row.Querier }

// NewReader makes a reader on a pool or a transaction.
func NewReader(db row.Querier) *Reader { return &Reader{db: db} }

// query builds a statement with only the conditions that are set.
type query struct {
	where strings.Builder
	args  []any
}

func (q *query) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// and adds a condition that has one %s for its parameter.
func (q *query) and(condition string, value any) {
	fmt.Fprintf(&q.where, "\n    AND "+condition, q.arg(value))
}

// narrow adds the filter on a source s, and returns the filter on its counts k.
func (q *query) narrow(f *Filter) (counts string) {
	if f.Source != "" {
		q.and("s.name = %s", f.Source)
	}
	var inner query
	inner.args = q.args
	if f.Route != "" {
		inner.and("k.route_id = ANY (ARRAY (SELECT r.id FROM route r WHERE r.source_id = s.id AND r.name = %s))", f.Route)
	}
	if f.Target != "" {
		inner.and("k.route_id = ANY (ARRAY (SELECT r.id FROM route r WHERE r.source_id = s.id AND r.target = %s))", f.Target)
	}
	if f.Tenant != "" {
		inner.and("k.tenant = %s", f.Tenant)
	}
	q.args = inner.args
	return inner.where.String()
}

// sumsQuery reads, source by source and kind by kind, one range of the primary key each: the lateral aggregate prevents
// the planner from choosing any other plan.
func sumsQuery(f *Filter) (sql string, args []any, err error) {
	table, column, unit, n, err := f.window().step()
	if err != nil {
		return "", nil, err
	}
	q := query{args: []any{unit, n - 1, Names()}}
	narrow := q.narrow(f)
	return `
SELECT s.name, coalesce(r.name, ''), c.tenant, one.kind, c.n, w.since, w.until
FROM (SELECT date_bin($1::interval, now(), 'epoch') - $2::int * $1::interval AS since, now() AS until OFFSET 0) w
CROSS JOIN source s
CROSS JOIN unnest($3::text[]) AS one (kind)
CROSS JOIN LATERAL (
    SELECT k.route_id, k.tenant, sum(k.n)::bigint AS n
    FROM ` + table + ` k
    WHERE k.source_id = s.id AND k.kind = one.kind AND k.` + column + ` >= w.since` + narrow + `
    GROUP BY 1, 2) c
LEFT JOIN route r ON r.id = c.route_id
WHERE true` + q.where.String() + `
ORDER BY 1, 2, 3`, q.args, nil
}

func (f *Filter) window() Window {
	if f.Window == "" {
		return Hour
	}
	return f.Window
}

// Sums returns the counts in the window, for each source, route and tenant.
func (r *Reader) Sums(ctx context.Context, f Filter) (Sums, error) {
	_, _, unit, n, err := f.window().step()
	if err != nil {
		return Sums{}, err
	}
	sql, args, err := sumsQuery(&f)
	if err != nil {
		return Sums{}, err
	}
	out := Sums{Rows: []Sum{}}
	rows, err := r.db.Query(ctx, sql, args...)
	if err != nil {
		return Sums{}, fmt.Errorf("reading counts: %w", err)
	}
	var (
		one  Sum
		kind string
		sum  int64
		all  = byName()
	)
	_, err = pgx.ForEachRow(rows, []any{&one.Source, &one.Route, &one.Tenant, &kind, &sum, &out.Since, &out.Until}, func() error {
		if last := len(out.Rows) - 1; last < 0 || out.Rows[last].Source != one.Source || out.Rows[last].Route != one.Route || out.Rows[last].Tenant != one.Tenant {
			out.Rows = append(out.Rows, one)
		}
		if k, ok := all[kind]; ok { // a newer program may count more
			*out.Rows[len(out.Rows)-1].of(k, one.Route != "") += sum
		}
		return nil
	})
	if err != nil {
		return Sums{}, fmt.Errorf("reading counts: %w", err)
	}
	if len(out.Rows) == 0 {
		out.Since, out.Until, err = r.ends(ctx, unit, n)
	}
	return out, err
}

const readEnds = `SELECT date_bin($1::interval, now(), 'epoch') - $2::int * $1::interval, now()`

// ends returns the ends of a window without counts.
func (r *Reader) ends(ctx context.Context, unit time.Duration, n int) (since, until time.Time, err error) {
	rows, err := r.db.Query(ctx, readEnds, unit, n-1)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&since, &until}, func() error { return nil })
	}
	if err != nil {
		return since, until, fmt.Errorf("reading counts: %w", err)
	}
	return since, until, nil
}
