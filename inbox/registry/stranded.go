package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// RegistrationCheck lists what a registration would change, and which rows would be abandoned
// with its configuration.
type RegistrationCheck struct {
	// Renames are the names that change; an older configuration changes none.
	Renames []Rename `json:"renames"`

	// Exchanged are names that one source or route loses and another one gets.
	Exchanged []string `json:"exchanged_names"`

	// Unknown are previous names of the configuration that the database never had, as
	// "source new: old". They do no harm.
	Unknown []string `json:"unknown_previous_names"`

	// Sources are the sources with keys that are not in the configuration. A source that
	// takes their deliveries under another name would admit all their events as new.
	Sources []StrandedSource `json:"removed_sources"`

	// Routes are the routes with unsettled effects that are not in the configuration.
	Routes []StrandedRoute `json:"removed_routes"`
}

// Rename is a source or a route that gets another name.
type Rename struct {
	// What is "source" or "route". From and Into have the form "source" or "source/route".
	What string `json:"what"`
	From string `json:"from"`
	Into string `json:"into"`
}

// StrandedSource is a source that a configuration does not have.
type StrandedSource struct {
	Source   string `json:"source"`
	Provider string `json:"provider"`
	// Keys counts the events by which it recognises duplicates, up to 10,001.
	Keys int `json:"keys"`
}

// String describes the source and what to do about it.
func (s StrandedSource) String() string {
	return fmt.Sprintf("source %s is not configured and holds %s: should it have another name now, write previous_names: [%s] there, or its old events would be new again",
		s.Source, countText(s.Keys, "key", "keys"), s.Source)
}

// StrandedRoute is a route that a configuration does not have, with its unsettled
// effects. Each count goes up to 10,000 and one.
type StrandedRoute struct {
	Source string `json:"source"`
	Route  string `json:"route"`

	// Pending, Retry and Claimed effects are looked for among the 100,000 that are due first.
	Pending int `json:"pending"`
	Retry   int `json:"retry"`
	Claimed int `json:"claimed"`
	// Held effects wait for another one of their sequence; Streams are those sequences.
	Held    int `json:"held"`
	Streams int `json:"streams"`
	// Dead and Indeterminate effects wait for a person.
	Dead          int `json:"dead"`
	Indeterminate int `json:"indeterminate"`
}

// Waiting is how many effects no process carries out.
func (r StrandedRoute) Waiting() int { return r.Pending + r.Retry + r.Claimed + r.Held }

// String describes the route and what to do about it.
func (r StrandedRoute) String() string {
	name := r.Source + "/" + r.Route
	var has, ends []string
	for _, of := range []struct {
		n    int
		what string
	}{{r.Pending, "pending"}, {r.Retry, "in retry"}, {r.Claimed, "claimed"}, {r.Held, "held"}, {r.Dead, "dead"}, {r.Indeterminate, "indeterminate"}} {
		if of.n > 0 {
			has = append(has, countText(of.n, of.what, of.what))
		}
	}
	if r.Streams > 0 {
		has = append(has, "in "+countText(r.Streams, "stream", "streams"))
	}
	if r.Waiting() > 0 {
		ends = append(ends, "`oncegate routes move "+name+" --to ...` or `routes discard "+name+"`")
	}
	if r.Dead > 0 {
		ends = append(ends, "`oncegate dead discard --source "+r.Source+" --route "+r.Route+"`")
	}
	if r.Indeterminate > 0 {
		ends = append(ends, "`oncegate effects resolve --source "+r.Source+" --route "+r.Route+" --done`")
	}
	return fmt.Sprintf("route %s is not configured and has unsettled effects (%s): configure it again, write previous_names: [%s] at the route that it became, or end them with %s",
		name, strings.Join(has, ", "), r.Route, strings.Join(ends, ", "))
}

// Each part reads a partial index in its own order and no further than its bound, however
// large the table is.
const (
	readStrandedRest = `
SELECT r.id, d.dead, i.indeterminate, h.held, h.streams
` + row.FromRestingEffects + `
CROSS JOIN LATERAL (
    SELECT count(*) AS held, count(DISTINCT x.sequence_key_hash) AS streams
    FROM (
        SELECT e.sequence_key_hash
        FROM effect e
        WHERE e.route_id = r.id AND e.state = 'held'
        ORDER BY e.route_id, e.id
        LIMIT $2) x) h`

	readStrandedDue = `
SELECT d.route_id, count(*) FILTER (WHERE d.state = 'pending'), count(*) FILTER (WHERE d.state = 'retry'), count(*) FILTER (WHERE d.state = 'claimed')
FROM (
    SELECT e.route_id, e.state
    FROM effect e
    WHERE e.next_at IS NOT NULL
    ORDER BY e.next_at, e.id
    LIMIT $2) d
WHERE d.route_id = ANY ($1::int[])
GROUP BY d.route_id`
)

const (
	// maxDueExamined is how many due effects are read.
	maxDueExamined = 100_000

	// checkTimeout bounds each statement of a check.
	checkTimeout = 10 * time.Second
)

const checkSession = `
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_sort', 'off', true), set_config('statement_timeout', $1, true)`

// Check lists what [Registration.Write] would change and what would be abandoned. It writes
// nothing, and takes no longer with more rows. It returns [ErrNames] as Write does.
func (r Registration) Check(ctx context.Context) (*RegistrationCheck, error) {
	out := &RegistrationCheck{Renames: []Rename{}, Exchanged: []string{}, Unknown: []string{}, Sources: []StrandedSource{}, Routes: []StrandedRoute{}}
	err := pgx.BeginTxFunc(ctx, r.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, checkSession, fmt.Sprint(checkTimeout.Milliseconds())); err != nil {
			return fmt.Errorf("checking names: %w", err)
		}
		known, err := readNames(ctx, tx)
		if err != nil {
			return err
		}
		decided, err := known.decide(r.Sources)
		if err != nil {
			return err
		}
		holders, err := readHolders(ctx, tx)
		if err != nil {
			return err
		}
		if err := checkKeys(decided, r.Sources, holders); err != nil {
			return err
		}
		if err := checkRecipes(ctx, tx, decided, r.Sources); err != nil {
			return err
		}
		out.addRenames(r.Sources, decided)
		out.Exchanged = append(out.Exchanged, decided.reused()...)
		return out.addStranded(ctx, tx, known, decided, holders)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// addRenames adds the names that change.
func (c *RegistrationCheck) addRenames(sources []Source, decided *decidedNames) {
	for _, s := range sources {
		d := decided.sources[s.Name]
		if d.renamed != "" {
			c.Renames = append(c.Renames, Rename{What: "source", From: d.renamed, Into: s.Name})
		}
		for _, p := range d.learned {
			c.Unknown = append(c.Unknown, "source "+s.Name+": "+p)
		}
		for _, r := range s.Routes {
			d := decided.routes[s.Name][r.Name]
			if d.renamed != "" {
				c.Renames = append(c.Renames, Rename{What: "route", From: s.Name + "/" + d.renamed, Into: s.Name + "/" + r.Name})
			}
			for _, p := range d.learned {
				c.Unknown = append(c.Unknown, "route "+s.Name+"/"+r.Name+": "+p)
			}
		}
	}
}

// addStranded counts the keys and effects that the configuration abandons.
func (c *RegistrationCheck) addStranded(ctx context.Context, tx pgx.Tx, known *knownNames, decided *decidedNames, holders []keyHolder) error {
	kept := map[int32]string{} // source rows by their future names
	keptRoutes := map[int32]bool{}
	for name, d := range decided.sources {
		if d.row == 0 {
			continue
		}
		kept[d.row] = name
		for _, r := range decided.routes[name] {
			keptRoutes[r.row] = true
		}
	}
	routes := map[int32]StrandedRoute{}
	var ids []int32
	for _, h := range holders {
		name, configured := kept[h.ID]
		if !configured {
			if name = h.Name; h.Keys > 0 {
				c.Sources = append(c.Sources, StrandedSource{Source: h.Name, Provider: h.Provider, Keys: h.Keys})
			}
		}
		for _, r := range known.routes[h.ID] {
			if !keptRoutes[r.id] {
				routes[r.id] = StrandedRoute{Source: name, Route: r.name}
				ids = append(ids, r.id)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := countStranded(ctx, tx, ids, routes); err != nil {
		return fmt.Errorf("counting what removed routes hold: %w", err)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if r := routes[id]; r.Waiting()+r.Dead+r.Indeterminate > 0 {
			c.Routes = append(c.Routes, r)
		}
	}
	return nil
}

func countStranded(ctx context.Context, tx pgx.Tx, ids []int32, routes map[int32]StrandedRoute) error {
	rows, err := tx.Query(ctx, readStrandedRest, ids, row.MaxCounted+1)
	if err != nil {
		return err
	}
	var id int32
	var rest StrandedRoute
	_, err = pgx.ForEachRow(rows, []any{&id, &rest.Dead, &rest.Indeterminate, &rest.Held, &rest.Streams}, func() error {
		r := routes[id]
		r.Dead, r.Indeterminate, r.Held, r.Streams = rest.Dead, rest.Indeterminate, rest.Held, rest.Streams
		routes[id] = r
		return nil
	})
	if err != nil {
		return err
	}
	if rows, err = tx.Query(ctx, readStrandedDue, ids, maxDueExamined); err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&id, &rest.Pending, &rest.Retry, &rest.Claimed}, func() error {
		r := routes[id]
		r.Pending, r.Retry, r.Claimed = min(rest.Pending, row.MaxCounted+1), min(rest.Retry, row.MaxCounted+1), min(rest.Claimed, row.MaxCounted+1)
		routes[id] = r
		return nil
	})
	return err
}

// ReadStrandedEffects counts the effects that wait for routes that no live configuration has,
// by "source" and "route" as the database names them: routes that neither the latest started
// server nor any live process has. Routes without such effects are left out.
func ReadStrandedEffects(ctx context.Context, pool *pgxpool.Pool) ([]StrandedRoute, error) {
	var out []StrandedRoute
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, checkSession, fmt.Sprint(checkTimeout.Milliseconds())); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, readGoneRoutes)
		if err != nil {
			return err
		}
		routes := map[int32]StrandedRoute{}
		var ids []int32
		var id int32
		var r StrandedRoute
		if _, err = pgx.ForEachRow(rows, []any{&id, &r.Source, &r.Route}, func() error {
			routes[id] = r
			ids = append(ids, id)
			return nil
		}); err != nil || len(ids) == 0 {
			return err
		}
		if err := countStranded(ctx, tx, ids, routes); err != nil {
			return err
		}
		for _, id := range ids {
			out = append(out, routes[id])
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("counting effects of routes that are gone: %w", err)
	}
	return out, nil
}

const readGoneRoutes = `
SELECT r.id, s.name, r.name
FROM route r
JOIN source s ON s.id = r.source_id
WHERE ` + row.GoneRoute + `
ORDER BY s.name, r.name`
