package pause

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
)

// Kind is a kind of thing that can be paused. Part of the API: never change.
type Kind string

// The kinds.
const (
	Source Kind = "source" // its deliveries are not taken
	Route  Kind = "route"  // its effects wait
	Target Kind = "target" // the effects of all routes to it wait
)

// Thing names a source, a route or a target.
type Thing struct {
	Kind Kind `json:"kind"`

	// Name is the name of the source or the target. For a route it is <source>/<route>.
	Name string `json:"name"`
}

// Words names the thing in a sentence.
func (s Thing) Words() string { return string(s.Kind) + " " + s.Name }

// Pause says since when a thing is paused, by whom, and why.
type Pause struct {
	Thing
	// Since is when the pause began, by the database's clock.
	Since time.Time `json:"since"`
	// By is who paused it.
	By string `json:"by"`
	// Reason is why.
	Reason string `json:"reason"`
}

// Decision is who pauses or resumes, and why. Both fields are required.
type Decision struct{ Actor, Reason string }

// ErrUnknown means that no such source, route or target exists.
var ErrUnknown = errors.New("it does not exist")

// ids are the columns of the row that the thing has.
type ids struct {
	source, route *int32
	target        *string
}

const (
	findSource = `SELECT id FROM source WHERE name = $1`
	findRoute  = `SELECT r.id FROM route r JOIN source s ON s.id = r.source_id WHERE s.name = $1 AND r.name = $2`
)

// find returns the columns of the row of a pause. A source and a route are paused by the ids of their rows, so that a renamed one
// stays paused. A target has only its name.
func find(ctx context.Context, tx pgx.Tx, s Thing) (found ids, err error) {
	var id int32
	switch s.Kind {
	case Source:
		found.source = &id
		err = tx.QueryRow(ctx, findSource, s.Name).Scan(&id)
	case Route:
		source, route, _ := strings.Cut(s.Name, "/")
		found.route = &id
		err = tx.QueryRow(ctx, findRoute, source, route).Scan(&id)
	case Target:
		found.target = &s.Name
	default:
		err = fmt.Errorf("kind %q: %w", s.Kind, ErrUnknown)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrUnknown
	}
	return found, err
}

// Of two callers at once, one inserts the row. The other one waits for it and then gets no row here.
const insertPause = `
INSERT INTO pause (source_id, route_id, target, actor, reason) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT ON CONSTRAINT pause_key DO NOTHING
RETURNING paused_at`

// The lock on the row of the first caller keeps others from resuming it before this transaction ends.
const lockPause = `
SELECT actor, reason, paused_at FROM pause
WHERE source_id IS NOT DISTINCT FROM $1 AND route_id IS NOT DISTINCT FROM $2 AND target IS NOT DISTINCT FROM $3
FOR SHARE`

// Set pauses the thing. If it is paused already, Set changes nothing and returns the pause that lasts. It returns
// [ErrUnknown] for a source or a route that has no row. The caller must know that the target exists.
func Set(ctx context.Context, pool *pgxpool.Pool, s Thing, d Decision) (out Pause, err error) {
	err = change(ctx, pool, s, d, "pausing", func(tx pgx.Tx, found ids) error {
		out = Pause{Thing: s, By: d.Actor, Reason: d.Reason}
		// A caller that resumes may delete the row between the two statements.
		for {
			err := tx.QueryRow(ctx, insertPause, found.source, found.route, found.target, d.Actor, d.Reason).Scan(&out.Since)
			if !errors.Is(err, pgx.ErrNoRows) {
				if err == nil {
					err = audit(ctx, tx, inbox.AuditPause, s, d, nil, &out, out.Since)
				}
				return err
			}
			err = tx.QueryRow(ctx, lockPause, found.source, found.route, found.target).Scan(&out.By, &out.Reason, &out.Since)
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
	})
	return out, err
}

const deletePause = `
DELETE FROM pause
WHERE source_id IS NOT DISTINCT FROM $1 AND route_id IS NOT DISTINCT FROM $2 AND target IS NOT DISTINCT FROM $3
RETURNING actor, reason, paused_at, clock_timestamp()`

// The time for which the source was paused is not one in which its sender was silent.
const awaitSource = `UPDATE source SET awaited_since = now() WHERE id = $1`

// Lift resumes the thing. It changes nothing if the thing is not paused. It returns [ErrUnknown] like [Set].
func Lift(ctx context.Context, pool *pgxpool.Pool, s Thing, d Decision) error {
	return change(ctx, pool, s, d, "resuming", func(tx pgx.Tx, found ids) error {
		was, now := Pause{Thing: s}, time.Time{}
		err := tx.QueryRow(ctx, deletePause, found.source, found.route, found.target).Scan(&was.By, &was.Reason, &was.Since, &now)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		if found.source != nil {
			if _, err := tx.Exec(ctx, awaitSource, found.source); err != nil {
				return err
			}
		}
		return audit(ctx, tx, inbox.AuditResume, s, d, &was, nil, now)
	})
}

func change(ctx context.Context, pool *pgxpool.Pool, s Thing, d Decision, doing string, do func(pgx.Tx, ids) error) error {
	err := inbox.CheckExplanation(d.Actor, d.Reason)
	if err == nil {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			found, err := find(ctx, tx, s)
			if err != nil {
				return err
			}
			return do(tx, found)
		})
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", doing, s.Words(), err)
	}
	return nil
}

func audit(ctx context.Context, tx pgx.Tx, action inbox.AuditAction, s Thing, d Decision, before, after *Pause, at time.Time) error {
	return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: at, Actor: d.Actor, Action: action, Object: string(s.Kind) + "/" + s.Name, Reason: d.Reason, Before: before, After: after,
	})
}

// The table has few rows. Of each the ids serve the processes, and the names serve people. A route that is ordered or has keys is paused, too,
// while its source has moved here and the database that it left has not completed its effects.
const readPauses = `
SELECT p.source_id, p.route_id, p.target, coalesce(s.name || '/' || r.name, o.name, p.target), coalesce(s.tenant, o.tenant, ''), p.paused_at, p.actor, p.reason
FROM pause p
LEFT JOIN source o ON o.id = p.source_id
LEFT JOIN route r ON r.id = p.route_id
LEFT JOIN source s ON s.id = r.source_id
UNION ALL
SELECT NULL, r.id, NULL, s.name || '/' || r.name, s.tenant, m.began_at, m.actor,
    'the source moves here from the database ' || m.other || ', which completes its effects first: ' || m.reason
FROM source_move m
JOIN source s ON s.id = m.source_id
JOIN route r ON r.source_id = m.source_id
WHERE m.direction = 'in' AND m.state <> 'settled'
    AND (EXISTS (SELECT FROM order_definition o WHERE o.route_id = r.id) OR EXISTS (SELECT FROM key_recipe k WHERE k.route_id = r.id))
ORDER BY 6, 4`

// row is a pause with its ids and the tenant of its source.
type row struct {
	Pause
	ids
	tenant string
}

func scan(from pgx.CollectableRow) (p row, err error) {
	err = from.Scan(&p.source, &p.route, &p.target, &p.Name, &p.tenant, &p.Since, &p.By, &p.Reason)
	switch {
	case p.source != nil:
		p.Kind = Source
	case p.route != nil:
		p.Kind = Route
	default:
		p.Kind = Target
	}
	return p, err
}

// Pauses are pauses, the oldest first.
type Pauses []Pause

// Of returns the pause of a thing, or nil if the thing is not paused.
func (p Pauses) Of(kind Kind, name string) *Pause {
	if i := slices.IndexFunc(p, func(one Pause) bool { return one.Thing == Thing{kind, name} }); i >= 0 {
		return &p[i]
	}
	return nil
}

// OfRoute returns why the effects of a route wait: its own pause, or the one of its target. It returns nil if neither is paused.
func (p Pauses) OfRoute(source, route, target string) *Pause {
	if own := p.Of(Route, source+"/"+route); own != nil {
		return own
	}
	return p.Of(Target, target)
}

// Queue queues the statement that reads all pauses. A tenant sees the pauses of its sources and their routes. It also sees the pauses
// of targets, because its effects may wait for them.
func Queue(b *pgx.Batch, tenant string, into *Pauses) {
	b.Queue(readPauses).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, scan)
		*into = Pauses{}
		for i := range all {
			if tenant == "" || all[i].Kind == Target || all[i].tenant == tenant {
				*into = append(*into, all[i].Pause)
			}
		}
		return err
	})
}

// List reads all pauses, as [Queue] does.
func List(ctx context.Context, pool *pgxpool.Pool, tenant string) (out Pauses, err error) {
	b := &pgx.Batch{}
	Queue(b, tenant, &out)
	if err := pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("reading what is paused: %w", err)
	}
	return out, nil
}

// The configuration declares the targets. The database knows the targets of all registered routes, and the paused targets.
const (
	knownSources = `SELECT name FROM source WHERE $1 = '' OR tenant = $1 ORDER BY name`
	knownRoutes  = `SELECT s.name || '/' || r.name FROM route r JOIN source s ON s.id = r.source_id WHERE $1 = '' OR s.tenant = $1 ORDER BY 1`
	knownTargets = `SELECT target FROM route WHERE $1 = '' UNION SELECT target FROM pause WHERE $1 = '' AND target IS NOT NULL ORDER BY 1`
)

// Known returns the names of all things of a kind that the database knows, or those that belong to the tenant.
func Known(ctx context.Context, pool *pgxpool.Pool, kind Kind, tenant string) ([]string, error) {
	statement := map[Kind]string{Source: knownSources, Route: knownRoutes, Target: knownTargets}[kind]
	rows, err := pool.Query(ctx, statement, tenant)
	if err != nil {
		return nil, fmt.Errorf("reading the names of every %s: %w", kind, err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the names of every %s: %w", kind, err)
	}
	return names, nil
}
