package attention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/rollup"
)

// MaxCounted is the limit up to which rows of one kind are counted. A higher count is "10,000 and more".
const MaxCounted = 10_000

// recently is how far back refusals and suspected events are shown. They are limited by time because no one has to
// close them.
const recently = 24 * time.Hour

// Item is the rows of one kind that wait.
type Item struct {
	Kind Kind `json:"kind"`

	// Count is how many there are, at most [MaxCounted]. More says that there are more, or that not all were looked at.
	Count int64 `json:"count"`
	More  bool  `json:"more,omitempty"`

	// Oldest is since when the oldest one waits, of those that were counted: when its event was recorded, its gap began, its stream
	// was blocked, its payload or request came, or its source had its last event. nil is not known, as for suspected events.
	Oldest *time.Time `json:"oldest,omitempty"`

	// Places are where they are, those with the most first, at most [MaxPlaces]. Replays have none.
	Places []Place `json:"places,omitempty"`

	// Failures are the targets that fail, of the kind [Failing] alone.
	Failures []Failure `json:"failures,omitempty"`

	// Pauses are the pauses, of the kind [Paused] alone.
	Pauses pause.Pauses `json:"pauses,omitempty"`
}

// MaxPlaces is how many places of one kind are named.
const MaxPlaces = 50

// Place is a source, or a route of it, with how many things wait there.
type Place struct {
	Source string     `json:"source"`
	Route  string     `json:"route,omitempty"`
	Count  int64      `json:"count"`
	Oldest *time.Time `json:"oldest,omitempty"`
}

// Attention is everything that waits for a person.
type Attention struct {
	// Data are the kinds of which something waits, in the order of [Kinds].
	Data []Item `json:"data"`

	// LastEvent is when the last event of any source was recorded, within the last ten seconds or so; nil without one.
	LastEvent *time.Time `json:"last_event,omitempty"`
}

// Config configures a [Reader]. Pool is required.
type Config struct {
	// Pool is one that no deliveries use.
	Pool *pgxpool.Pool

	// Budget is how long the conditions of all kinds together are asked; 0 is [read.ListBudget]. What could not be looked at
	// in that time is said by More.
	Budget time.Duration

	// Now is by what the last 24 hours are counted. It defaults to time.Now.
	Now func() time.Time
}

// Reader reads the rows that wait for a person.
type Reader struct{ cfg Config }

// New makes a reader.
func New(cfg Config) (*Reader, error) {
	if cfg.Pool == nil {
		return nil, errors.New("attention: Pool is required")
	}
	cfg.Budget = cmp.Or(cfg.Budget, read.ListBudget)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Reader{cfg: cfg}, nil
}

// The settings make PostgreSQL read an index in its order, no further than the bound, regardless of the statistics and
// of how full a table is.
const byIndex = `
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_sort', 'off', true)`

// Read returns the rows that wait for a person, of one tenant or, if that is empty, of all. It takes one round trip and
// one snapshot. A tenant sees the rows that belong to its events or, if there is no event, to its sources. If the
// budget ends before the statement has passed the rows of other tenants, More says that not all rows were read, even
// with a count of 0.
func (r *Reader) Read(ctx context.Context, tenant string) (Attention, error) {
	found := map[Kind]*Item{}
	var activities []rollup.Activity
	var suspected []Place
	b := &pgx.Batch{}
	b.Queue("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
	b.Queue(byIndex)
	for i := range statements {
		until := r.cfg.Budget * time.Duration(i+1) / time.Duration(len(statements))
		r.queue(b, &statements[i], tenant, until, found)
	}
	for kind, sql := range map[Kind]string{Undeclared: readUndeclared, Plans: readPlans, NotReloaded: readNotReloaded, Standstills: readStandstills} {
		b.Queue(sql, MaxCounted+1, tenant).QueryRow(func(row pgx.Row) error {
			item := &Item{Kind: kind}
			found[kind] = item
			return row.Scan(&item.Count, &item.Oldest)
		})
	}
	r.queueFailing(b, tenant, found)
	var paused pause.Pauses
	pause.Queue(b, tenant, &paused)
	rollup.QueueActivities(b, rollup.Filter{Tenant: tenant}, &activities)
	rollup.QueueSuspected(b, tenant, recently, func(source string, n int64) {
		suspected = append(suspected, Place{Source: source, Count: n})
	})
	b.Queue("COMMIT")
	conn, err := r.cfg.Pool.Acquire(ctx)
	if err != nil {
		return Attention{}, fmt.Errorf("reading what waits for a person: %w", err)
	}
	defer conn.Release() // a failed transaction ends with its connection
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return Attention{}, fmt.Errorf("reading what waits for a person: %w", err)
	}
	found[Silent], found[Suspected] = silentItem(activities), sumOf(&Item{Kind: Suspected, Places: suspected})
	if len(paused) > 0 {
		found[Paused] = &Item{Kind: Paused, Count: int64(len(paused)), Oldest: &paused[0].Since, Pauses: paused}
	}
	out := Attention{Data: []Item{}}
	for i := range activities {
		if last := activities[i].LastEvent; last != nil && (out.LastEvent == nil || last.After(*out.LastEvent)) {
			out.LastEvent = last
		}
	}
	for _, kind := range Kinds() {
		if item := found[kind]; item != nil && (item.Count > 0 || item.More) {
			item.bound()
			out.Data = append(out.Data, *item)
		}
	}
	return out, nil
}

// queue queues one statement. Its result is in found when the batch has been read.
func (r *Reader) queue(b *pgx.Batch, s *statement, tenant string, until time.Duration, found map[Kind]*Item) {
	args := []any{MaxCounted + 1}
	if s.kind == Refusals {
		args = append(args, inbox.FirstID(r.cfg.Now().Add(-recently)))
	}
	if tenant != "" {
		args = append(args, tenant)
	}
	b.Queue(s.sql(tenant != "", until), args...).Query(func(rows pgx.Rows) error {
		item := &Item{Kind: s.kind}
		found[s.kind] = item
		var (
			place Place
			id    *inbox.ID
			at    *time.Time
			seen  int64
		)
		_, err := pgx.ForEachRow(rows, []any{&place.Source, &place.Route, &place.Count, &id, &at, &seen}, func() error {
			if item.More = item.More || seen > MaxCounted; place.Count == 0 {
				return nil // nothing but that
			}
			place.Oldest = at
			if at == nil && id != nil {
				made := id.Time()
				place.Oldest = &made
			}
			item.Places = append(item.Places, place)
			return nil
		})
		sumOf(item)
		return err
	})
}

// sumOf sets the item to the sum of its places.
func sumOf(item *Item) *Item {
	item.Count, item.Oldest = 0, nil
	for i := range item.Places {
		p := &item.Places[i]
		item.Count += p.Count
		if p.Oldest != nil && (item.Oldest == nil || p.Oldest.Before(*item.Oldest)) {
			item.Oldest = p.Oldest
		}
	}
	return item
}

// bound limits the count and the number of places.
func (i *Item) bound() {
	if i.Count > MaxCounted {
		i.Count, i.More = MaxCounted, true
	}
	if len(i.Places) > MaxPlaces {
		i.Places = i.Places[:MaxPlaces]
	}
}

// silentItem are the sources that are silent, those that have been for longest first.
func silentItem(all []rollup.Activity) *Item {
	item := &Item{Kind: Silent}
	for i := range all {
		if all[i].Silent {
			item.Places = append(item.Places, Place{Source: all[i].Source, Count: 1, Oldest: all[i].LastEvent})
		}
	}
	slices.SortFunc(item.Places, func(a, b Place) int { return a.Oldest.Compare(*b.Oldest) })
	return sumOf(item)
}
