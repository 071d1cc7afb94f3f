package prune

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Horizons are how long rows are kept. A row that is older than its horizon is due to
// be pruned, unless it is still needed.
type Horizons struct {
	// Body is how long the exact bytes of a delivery are kept.
	Body time.Duration

	// Tombstone is how long a key refuses duplicates: the row of the event, the
	// result of an operation, streams and effect keys. It is never shorter than Body
	// and Effects.
	Tombstone time.Duration

	// Effects is how long an effect and its attempts are kept once it is settled.
	Effects time.Duration

	// Refusals is how long refused deliveries are kept, within their own limits.
	Refusals time.Duration

	// Audit is how long the audit is kept; of all classes, the longest counts.
	Audit time.Duration
}

// tombstoneSlack is how much longer a tombstone lives than the gate's horizon:
// more than the clocks of two nodes, a queue and a rolling deployment can be
// apart, so that no event falls between "still known" and "too old to be new".
const tombstoneSlack = time.Hour

// ClassRow is a retention class of the configuration as [RegisterClasses] writes
// it.
type ClassRow struct {
	Name string
	Horizons
}

const upsertClass = `
INSERT INTO retention_class (name, body, tombstone, effects, refusals, audit) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT ON CONSTRAINT retention_class_pkey DO UPDATE
SET body = excluded.body, tombstone = excluded.tombstone, effects = excluded.effects, refusals = excluded.refusals,
    audit = excluded.audit, configured_at = now()`

// RegisterClasses writes the retention classes of the configuration at start, because
// prune uses the stored ones. A class that is no longer in the configuration keeps its
// horizons, and prune applies them to its rows.
func RegisterClasses(ctx context.Context, pool *pgxpool.Pool, classes []ClassRow) error {
	for _, c := range classes {
		if err := inbox.CheckClassName(c.Name); err != nil {
			return err
		}
		for _, d := range []time.Duration{c.Body, c.Tombstone, c.Effects, c.Refusals, c.Audit} {
			if d <= 0 {
				return fmt.Errorf("class %s: every horizon must be longer than nothing", c.Name)
			}
		}
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, c := range classes {
			if _, err := tx.Exec(ctx, upsertClass, c.Name, c.Body, max(c.Tombstone, c.Body, c.Effects), c.Effects, c.Refusals, c.Audit); err != nil {
				return fmt.Errorf("registering class %s: %w", c.Name, err)
			}
		}
		return nil
	})
}

// SourceRetention is how long the rows of one source are kept.
type SourceRetention struct {
	ID     int32    `json:"-"`
	Source string   `json:"source"`
	Class  string   `json:"class"`
	Keep   Horizons `json:"-"`
}

// retention is the retention that was registered last, which prune applies.
type retention struct {
	now     time.Time // the database's
	classes map[string]Horizons
	sources []SourceRetention
	routes  map[int32]Horizons
	longest Horizons
}

const (
	readClasses = `SELECT name, body, tombstone, effects, refusals, audit, clock_timestamp() FROM retention_class ORDER BY name`

	readRetained = `
SELECT s.id, s.name, s.class, coalesce(s.tombstone, interval '0'),
    coalesce((SELECT array_agg(r.id) FROM route r WHERE r.source_id = s.id), '{}')
FROM source s
ORDER BY s.name`
)

// readRetention reads the horizons that are registered. A class that was never
// registered counts as the longest of each; if none ever was, nothing is due.
func readRetention(ctx context.Context, db row.Querier) (*retention, error) {
	r := &retention{classes: map[string]Horizons{}, routes: map[int32]Horizons{}}
	rows, err := db.Query(ctx, readClasses)
	if err != nil {
		return nil, fmt.Errorf("reading the retention classes: %w", err)
	}
	var name string
	var h Horizons
	_, err = pgx.ForEachRow(rows, []any{&name, &h.Body, &h.Tombstone, &h.Effects, &h.Refusals, &h.Audit, &r.now}, func() error {
		r.classes[name] = h
		l := &r.longest
		l.Body, l.Tombstone, l.Effects = max(l.Body, h.Body), max(l.Tombstone, h.Tombstone), max(l.Effects, h.Effects)
		l.Refusals, l.Audit = max(l.Refusals, h.Refusals), max(l.Audit, h.Audit)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the retention classes: %w", err)
	}
	if rows, err = db.Query(ctx, readRetained); err != nil {
		return nil, fmt.Errorf("reading the retention of sources: %w", err)
	}
	var (
		s         SourceRetention
		tombstone time.Duration
		routes    []int32
	)
	_, err = pgx.ForEachRow(rows, []any{&s.ID, &s.Source, &s.Class, &tombstone, &routes}, func() error {
		s.Keep = r.class(s.Class)
		s.Keep.Tombstone = max(s.Keep.Tombstone, tombstone, s.Keep.Body, s.Keep.Effects)
		r.sources = append(r.sources, s)
		for _, id := range routes {
			r.routes[id] = s.Keep
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the retention of sources: %w", err)
	}
	return r, nil
}

func (r *retention) class(name string) Horizons {
	if h, ok := r.classes[name]; ok {
		return h
	}
	return r.longest
}

// routeCutoffs returns the routes and, for each, the first id that is not past the
// horizon of its effects.
func (r *retention) routeCutoffs() (routes []int32, cutoffs []inbox.ID) {
	for id, h := range r.routes {
		if h != (Horizons{}) {
			routes, cutoffs = append(routes, id), append(cutoffs, r.cutoff(h.Effects))
		}
	}
	return routes, cutoffs
}

// cutoff is the first id that is not yet past the horizon.
func (r *retention) cutoff(horizon time.Duration) inbox.ID { return inbox.FirstID(r.now.Add(-horizon)) }

// Retention returns how long the rows of each source are kept, as registered.
func Retention(ctx context.Context, pool *pgxpool.Pool) ([]SourceRetention, error) {
	r, err := readRetention(ctx, pool)
	if err != nil {
		return nil, err
	}
	return r.sources, nil
}
