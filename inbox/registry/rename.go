package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/node"
)

// decidedNames are the rows that sources have, and the routes of each, by configured
// name.
type decidedNames struct {
	sources map[string]nameDecision
	routes  map[string]map[string]nameDecision
}

const (
	readNamedSources = `SELECT id, name, coalesce(key_name, name) FROM source`
	readNamedRoutes  = `SELECT source_id, id, name, coalesce(key_name, name) FROM route`
	readPastNames    = `SELECT source_id, route_id, name, into_name, at FROM past_name ORDER BY id`
)

// knownNames are the names in the database, including the former ones.
type knownNames struct {
	sources    []namedRow
	routes     map[int32][]namedRow // by source
	pastSource []pastName
	pastRoute  map[int32][]pastName // by source
}

func readNames(ctx context.Context, db row.Batcher) (*knownNames, error) {
	out := &knownNames{routes: map[int32][]namedRow{}, pastRoute: map[int32][]pastName{}}
	var b pgx.Batch
	b.Queue(readNamedSources).Query(func(rows pgx.Rows) error {
		var r namedRow
		_, err := pgx.ForEachRow(rows, []any{&r.id, &r.name, &r.keyName}, func() error {
			out.sources = append(out.sources, r)
			return nil
		})
		return err
	})
	b.Queue(readNamedRoutes).Query(func(rows pgx.Rows) error {
		var source int32
		var r namedRow
		_, err := pgx.ForEachRow(rows, []any{&source, &r.id, &r.name, &r.keyName}, func() error {
			out.routes[source] = append(out.routes[source], r)
			return nil
		})
		return err
	})
	b.Queue(readPastNames).Query(func(rows pgx.Rows) error {
		var source int32
		var route *int32
		var p pastName
		_, err := pgx.ForEachRow(rows, []any{&source, &route, &p.name, &p.into, &p.at}, func() error {
			if p.id = source; route == nil {
				out.pastSource = append(out.pastSource, p)
				return nil
			}
			p.id = *route
			out.pastRoute[source] = append(out.pastRoute[source], p)
			return nil
		})
		return err
	})
	if err := db.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("reading the names of sources and routes: %w", err)
	}
	return out, nil
}

// decide decides about all names of a configuration.
func (k *knownNames) decide(sources []Source) (*decidedNames, error) {
	wanted := make([]wantedName, len(sources))
	for i, s := range sources {
		wanted[i] = wantedName{name: s.Name, previous: s.PreviousNames, separate: s.Separate}
	}
	out := &decidedNames{routes: map[string]map[string]nameDecision{}}
	var err error
	if out.sources, err = newNames("source", k.sources, k.pastSource, wanted).decide(); err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range sources {
		wanted := make([]wantedName, len(s.Routes))
		for i, r := range s.Routes {
			wanted[i] = wantedName{name: r.Name, previous: r.PreviousNames, separate: r.Separate}
		}
		id := out.sources[s.Name].row
		decided, err := newNames("route", k.routes[id], k.pastRoute[id], wanted).decide()
		if err != nil {
			errs = append(errs, fmt.Errorf("source %s: %w", s.Name, err))
		}
		out.routes[s.Name] = decided
	}
	return out, errors.Join(errs...)
}

// reused returns the names that pass from one row to another, for people.
func (d *decidedNames) reused() []string {
	out := reusedNames(d.sources)
	for source, routes := range d.routes {
		for _, route := range reusedNames(routes) {
			out = append(out, source+"/"+route)
		}
	}
	slices.Sort(out)
	return out
}

const otherConfigurations = `
SELECT name FROM node
WHERE heartbeat > now() - $1::bigint * interval '1 microsecond' AND configuration <> $2
ORDER BY name LIMIT 3`

// names decides about the names of the configuration, under the lock.
func (r *registrar) names(ctx context.Context) (*decidedNames, error) {
	known, err := readNames(ctx, r.tx)
	if err != nil {
		return nil, err
	}
	decided, err := known.decide(r.Sources)
	if err != nil {
		return nil, err
	}
	holders, err := readHolders(ctx, r.tx)
	if err != nil {
		return nil, err
	}
	if err := checkKeys(decided, r.Sources, holders); err != nil {
		return nil, err
	}
	if err := checkRecipes(ctx, r.tx, decided, r.Sources); err != nil {
		return nil, err
	}
	if again := decided.reused(); len(again) > 0 {
		rows, err := r.tx.Query(ctx, otherConfigurations, node.Silence.Microseconds(), r.Configuration)
		if err != nil {
			return nil, fmt.Errorf("reading which processes live: %w", err)
		}
		others, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("reading which processes live: %w", err)
		}
		if len(others) > 0 {
			return nil, fmt.Errorf("%w: the name %s changes hands, and processes with another configuration live that mean the first (%s): stop them, wait for %s and start again",
				ErrNames, strings.Join(again, ", "), strings.Join(others, ", "), node.Silence)
		}
	}
	return decided, nil
}

// Names are changed in two steps, because two rows may exchange theirs. A row makes its keys with its first name,
// which stays stored.
const (
	leaveSourceNames = `UPDATE source SET name = '~' || id, key_name = coalesce(key_name, name) WHERE id = ANY ($1::int[])`
	takeSourceNames  = `UPDATE source SET name = a.name FROM unnest($1::int[], $2::text[]) AS a (id, name) WHERE source.id = a.id`
	leaveRouteNames  = `UPDATE route SET name = '~' || id, key_name = coalesce(key_name, name) WHERE id = ANY ($1::int[])`
	takeRouteNames   = `UPDATE route SET name = a.name FROM unnest($1::int[], $2::text[]) AS a (id, name) WHERE route.id = a.id`
)

// rename changes the names of the rows.
func (r *registrar) rename(ctx context.Context, decided *decidedNames) error {
	var b pgx.Batch
	queue := func(leave, take string, every ...map[string]nameDecision) {
		var ids []int32
		var names []string
		for _, decisions := range every {
			for name, d := range decisions {
				if d.renamed != "" {
					ids, names = append(ids, d.row), append(names, name)
				}
			}
		}
		if len(ids) > 0 {
			b.Queue(leave, ids)
			b.Queue(take, ids, names)
		}
	}
	queue(leaveSourceNames, takeSourceNames, decided.sources)
	queue(leaveRouteNames, takeRouteNames, slices.Collect(maps.Values(decided.routes))...)
	if b.Len() == 0 {
		return nil
	}
	if err := r.tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("renaming: %w", err)
	}
	return nil
}

// pastNameRow is a name that a row had before it got another one.
type pastNameRow struct {
	source     int32
	route      *int32
	name, into string
}

// pastNames are the names that rows had before: those they have just lost, and those that the configuration names.
type pastNames []pastNameRow

func (p *pastNames) add(source int32, route *int32, d nameDecision, name string) {
	if d.now != "" {
		return // the configuration is older than the stored names
	}
	for _, past := range d.learned {
		*p = append(*p, pastNameRow{source, route, past, name})
	}
	if d.renamed != "" {
		*p = append(*p, pastNameRow{source, route, d.renamed, name})
	}
}

var pastNameColumns = row.ColumnsFrom(1,
	row.Int("source_id", func(p *pastNameRow) int32 { return p.source }),
	row.Int("route_id", func(p *pastNameRow) *int32 { return p.route }),
	row.Text("name", func(p *pastNameRow) string { return p.name }),
	row.Text("into_name", func(p *pastNameRow) string { return p.into }),
)

// In the given order, so that the last row is the latest renaming.
var insertPastNames = `
INSERT INTO past_name (source_id, route_id, name, into_name)
SELECT a.source_id, a.route_id, a.name, a.into_name
FROM unnest(` + pastNameColumns.Arrays() + `) WITH ORDINALITY AS a (` + pastNameColumns.Names() + `, place)
ORDER BY a.place
ON CONFLICT ON CONSTRAINT past_name_key DO NOTHING`

func (p pastNames) write(ctx context.Context, tx pgx.Tx) error {
	if len(p) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, insertPastNames, pastNameColumns.Args(p)...)
	return err
}
