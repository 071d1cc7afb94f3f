package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// What silence is judged by.
const (
	// usualDays is how far back the usual pauses of a source are searched: far enough to include a pause over every
	// weekend.
	usualDays = 15

	// leastEvents is how many events a source must have had in that time for its pauses to be usual, in how many
	// different hours, and over how long. A burst has many events in an hour or two and shows no interval. Before a
	// whole day has passed, the pause of a night is not known.
	leastEvents = 10
	leastHours  = 6
	leastSpan   = 24 * time.Hour

	// leastSilence is the shortest silence that is reported.
	leastSilence = 15 * time.Minute

	// intervals is how many usual intervals without an event are a silence.
	intervals = 20
)

// Activity is when a source has events.
type Activity struct {
	Source string `json:"source"`

	// FirstEvent and LastEvent are when the first and the last event came. They are nil if none was counted. If a
	// source was quiet around an upgrade, its earlier events may be missing.
	FirstEvent *time.Time `json:"first_event,omitempty"`
	LastEvent  *time.Time `json:"last_event,omitempty"`

	// Events is how many came in the last 15 days.
	Events int64 `json:"events"`

	// Interval is the mean time between them, and LongestPause the longest time without one between two of them, in whole hours. Both
	// are 0 if the source has no usual pauses: it had fewer than 10 events, or they came in fewer than 6 different hours or within a day.
	Interval     time.Duration `json:"-"`
	LongestPause time.Duration `json:"-"`

	// Quiet is how long ago the last event came.
	Quiet time.Duration `json:"-"`

	// Silent means that Quiet is longer than usual: longer than one and a half times the longest pause, than 20
	// intervals and than 15 minutes. A source from which none are expected is not silent: one that is paused, disabled or configured no
	// more, or that carries the notifications. One that takes deliveries again is not silent before it has had that time.
	Silent bool `json:"silent"`

	// closed says that no deliveries are expected. awaited is since when it takes them again; nil is always.
	closed  bool
	awaited *time.Time
}

// SilentAfter is how long the source may be quiet before it counts as silent; 0 is unknown, because it has no usual
// pauses.
func (a *Activity) SilentAfter() time.Duration {
	if a.Interval == 0 {
		return 0
	}
	return max(a.LongestPause+a.LongestPause/2, intervals*a.Interval, leastSilence)
}

func activityQuery(f *Filter) (sql string, args []any) {
	q := query{args: []any{usualDays, Recorded.String()}}
	narrow, times := "", ""
	if f.Tenant != "" {
		tenant := q.arg(f.Tenant)
		narrow, times = " AND k.tenant = "+tenant, " AND t.tenant = "+tenant
	}
	if f.Source != "" {
		q.and("s.name = %s", f.Source)
	}
	return `
SELECT s.name, t.first, t.last, coalesce(u.n, 0), u.hours, u.first, coalesce(u.pause, interval '0'), now(),
    s.disabled OR EXISTS (SELECT FROM pause p WHERE p.source_id = s.id) OR EXISTS (SELECT FROM notification_look l WHERE l.source = s.name) OR ` + row.GoneSource + `, s.awaited_since
FROM source s
CROSS JOIN LATERAL (
    SELECT min(t.first_event_at) AS first, max(t.last_event_at) AS last FROM stat_source t WHERE t.source_id = s.id` + times + `) t
CROSS JOIN LATERAL (
    SELECT sum(h.n)::bigint AS n, count(*) AS hours, min(h.hour) AS first, max(h.hour - h.before) - interval '1 hour' AS pause
    FROM (
        SELECT k.hour, sum(k.n) AS n, lag(k.hour) OVER (ORDER BY k.hour) AS before
        FROM stat_hour k
        WHERE k.source_id = s.id AND k.kind = $2 AND k.hour >= now() - $1::int * interval '1 day'` + narrow + `
        GROUP BY k.hour) h) u
WHERE true` + q.where.String() + `
ORDER BY 1`, q.args
}

// Activities returns for each source when it has events, and whether it is silent now. It uses Source and Tenant of the
// filter; a tenant sees sources that have, or had, events of the tenant.
func (r *Reader) Activities(ctx context.Context, f Filter) ([]Activity, error) {
	out := []Activity{}
	sql, args := activityQuery(&f)
	rows, err := r.db.Query(ctx, sql, args...)
	if err == nil {
		err = scanActivities(rows, f.Tenant != "", &out)
	}
	if err != nil {
		return nil, fmt.Errorf("reading when sources have events: %w", err)
	}
	return out, nil
}

// QueueActivities queues the reads of [Reader.Activities], for a caller that reads more in the same round trip. out is
// filled when the batch has been read.
func QueueActivities(b *pgx.Batch, f Filter, out *[]Activity) {
	sql, args := activityQuery(&f)
	b.Queue(sql, args...).Query(func(rows pgx.Rows) error { return scanActivities(rows, f.Tenant != "", out) })
}

// scanActivities reads the rows; active leaves out sources that have had no event.
func scanActivities(rows pgx.Rows, active bool, out *[]Activity) error {
	var (
		a     Activity
		hours int
		first *time.Time
		pause time.Duration
		now   time.Time
	)
	_, err := pgx.ForEachRow(rows, []any{&a.Source, &a.FirstEvent, &a.LastEvent, &a.Events, &hours, &first, &pause, &now, &a.closed, &a.awaited}, func() error {
		if !active || a.LastEvent != nil {
			*out = append(*out, a.judged(hours, first, pause, now))
		}
		a = Activity{}
		return nil
	})
	return err
}

const readSuspected = `
SELECT s.name, k.n
FROM source s
CROSS JOIN LATERAL (
    SELECT sum(h.n)::bigint AS n FROM stat_hour h
    WHERE h.source_id = s.id AND h.kind = 'suspected' AND h.hour >= now() - $1::bigint * interval '1 microsecond' AND ($2::text = '' OR h.tenant = $2)) k
WHERE k.n > 0
ORDER BY 2 DESC, 1`

// QueueSuspected queues reading how many events of each source were suspected to repeat others within a time that ends
// now, in whole hours. When the first of them came is not known, because they are counted by the hour. found is called for
// each source with such events when the batch is read.
func QueueSuspected(b *pgx.Batch, tenant string, within time.Duration, found func(source string, n int64)) {
	b.Queue(readSuspected, within.Microseconds(), tenant).Query(func(rows pgx.Rows) error {
		var source string
		var n int64
		_, err := pgx.ForEachRow(rows, []any{&source, &n}, func() error { found(source, n); return nil })
		return err
	})
}

// judged adds whether the source is silent. hours is how many hours have events, and first is the first of them.
func (a Activity) judged(hours int, first *time.Time, pause time.Duration, now time.Time) Activity {
	if a.LastEvent == nil {
		return a
	}
	a.Quiet = max(now.Sub(*a.LastEvent), 0)
	if first == nil || a.Events < leastEvents || hours < leastHours {
		return a
	}
	if span := a.LastEvent.Sub(*first); span >= leastSpan {
		a.LongestPause, a.Interval = max(pause, 0), span/time.Duration(a.Events)
		since := *a.LastEvent
		if a.awaited != nil && a.awaited.After(since) {
			since = *a.awaited
		}
		a.Silent = !a.closed && now.Sub(since) > a.SilentAfter()
	}
	return a
}
