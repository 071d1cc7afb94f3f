package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Source is a source of the configuration as [Register] writes it.
type Source struct {
	Name, Provider, Class, Tenant string
	Routes                        []Route

	// PreviousNames are the names that the source had before. A row of the database with one of them gets the new name
	// and keeps everything else. Names that never existed do no harm. If the list contains the source's own name, the
	// source keeps its keys even though its provider has changed.
	PreviousNames []string

	// Separate declares that the source is different from all earlier ones. Without it, a new source is refused while
	// a source of the same provider is no longer configured and still has keys.
	Separate bool

	// Emit opens the source to the SQL function emit.
	Emit bool

	// EmitOrdered keeps the order in which transactions that emit to the source commit,
	// for routes that carry effects out in the order of arrival. Such commits are made
	// one after the other.
	EmitOrdered bool

	// Shadow says that the source is in shadow mode; see [inbox.Source].
	Shadow bool

	// Disabled says that no deliveries are taken.
	Disabled bool

	// Tombstone is how long the source's keys refuse duplicates, if that is longer
	// than its class says; 0 is the class's.
	Tombstone time.Duration
}

// Route is a route of the configuration as [Register] writes it.
type Route struct {
	Name, Target, Kind string

	// PreviousNames and Separate are as in [Source].
	PreviousNames []string
	Separate      bool

	// Key says how the keys of the route are made; nil if it has no recipe.
	Key *KeyRecipe

	// Digest identifies the route's definition; another one makes a new version.
	Digest []byte

	// Definition is the definition as a JSON object, for people and for plans. It is kept with each version and must
	// contain no secret; nil if there is none.
	Definition json.RawMessage
}

// Registered is what [Register] knows about a source.
type Registered struct {
	ID int32

	// Name is the name in the database. It differs from the configured one if the source
	// was renamed since that configuration was written.
	Name string

	// KeyName is the name that its keys are made with: the one it was first registered under.
	KeyName string

	// Renamed is the name that the source lost by this registration; empty if it kept its own.
	Renamed string

	Routes map[string]RegisteredRoute // by configured name
}

// RegisteredRoute is what [Register] knows about a route. Its names are as in
// [Registered].
type RegisteredRoute struct {
	ID, Version            int32
	Name, KeyName, Renamed string
}

// Registration writes the sources and routes of a configuration at start. Pool is
// required.
type Registration struct {
	Pool    *pgxpool.Pool
	Sources []Source

	// Configuration is the fingerprint of the configuration, as in [node.Config]. A name
	// that one source loses and another one gets is only changed while no process with
	// another configuration lives, since that one means the first of them.
	Configuration string
}

// Register writes the sources and routes of the configuration at start and returns their ids, by source name. Rows are
// never renumbered and never deleted: a source that is no longer configured keeps its events. It returns [ErrNames]
// for a configuration that does not fit the names in the database.
func Register(ctx context.Context, pool *pgxpool.Pool, sources []Source) (map[string]Registered, error) {
	return Registration{Pool: pool, Sources: sources}.Write(ctx)
}

// Write registers everything in one transaction, as [Register] does.
func (r Registration) Write(ctx context.Context) (out map[string]Registered, err error) {
	err = pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockNames); err != nil {
			return fmt.Errorf("registering sources: %w", err)
		}
		w := &registrar{Registration: r, tx: tx}
		out, err = w.write(ctx)
		return err
	})
	return out, err
}

// Two processes that start at once must not decide differently about a name. The locks do not block readers. Keys are counted through their index,
// regardless of the planner's statistics.
const lockNames = `
LOCK TABLE source, route IN SHARE ROW EXCLUSIVE MODE;
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)`

// registrar is a registration in progress.
type registrar struct {
	Registration
	tx pgx.Tx
}

func (r *registrar) write(ctx context.Context) (map[string]Registered, error) {
	decided, err := r.names(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.rename(ctx, decided); err != nil {
		return nil, err
	}
	var past pastNames
	out, err := r.writeSources(ctx, decided, &past)
	if err != nil {
		return nil, fmt.Errorf("registering sources: %w", err)
	}
	if err := r.writeRoutes(ctx, decided, out, &past); err != nil {
		return nil, fmt.Errorf("registering routes: %w", err)
	}
	if err := past.write(ctx, r.tx); err != nil {
		return nil, fmt.Errorf("writing down previous names: %w", err)
	}
	return out, nil
}

// sourceRow is the database row of a source.
type sourceRow struct {
	*Source
	name    string // in the database
	keyName *string
}

// sourceColumns are the columns of a statement that writes all sources. A start writes thousands of sources and blocks all other naming meanwhile, so it writes each table by one statement.
var sourceColumns = row.ColumnsFrom(1,
	row.Text("name", func(s *sourceRow) string { return s.name }),
	row.Text("provider", func(s *sourceRow) string { return s.Provider }),
	row.Text("class", func(s *sourceRow) string { return s.Class }),
	row.Text("tenant", func(s *sourceRow) string { return s.Tenant }),
	row.Bool("emit", func(s *sourceRow) bool { return s.Emit }),
	row.Bigint("tombstone", func(s *sourceRow) int64 { return s.Tombstone.Microseconds() }),
	row.Bool("emit_ordered", func(s *sourceRow) bool { return s.EmitOrdered }),
	row.OptionalText("key_name", func(s *sourceRow) *string { return s.keyName }),
	row.Bool("shadow", func(s *sourceRow) bool { return s.Shadow }),
	row.Bool("disabled", func(s *sourceRow) bool { return s.Disabled }),
)

func (r *registrar) writeSources(ctx context.Context, decided *decidedNames, past *pastNames) (map[string]Registered, error) {
	written := make([]sourceRow, len(r.Sources))
	configured := make(map[string]*Source, len(r.Sources))
	for i := range r.Sources {
		s := &r.Sources[i]
		d := decided.sources[s.Name]
		written[i] = sourceRow{Source: s, name: cmp.Or(d.now, s.Name), keyName: keyNameOf(d, s.Name)}
		configured[written[i].name] = s
	}
	rows, err := r.tx.Query(ctx, upsertSources, sourceColumns.Args(written)...)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Registered, len(r.Sources))
	var got Registered
	_, err = pgx.ForEachRow(rows, []any{&got.ID, &got.Name, &got.KeyName}, func() error {
		s := configured[got.Name]
		d := decided.sources[s.Name]
		got.Renamed, got.Routes = d.renamed, make(map[string]RegisteredRoute, len(s.Routes))
		out[s.Name] = got
		past.add(got.ID, nil, d, s.Name)
		return nil
	})
	return out, err
}

// routeRow is the database row of a route.
type routeRow struct {
	*Route
	source     string // the name in the configuration
	sourceID   int32
	name       string // in the database
	definition *string
	keyName    *string
}

var routeColumns = row.ColumnsFrom(1,
	row.Int("source_id", func(o *routeRow) int32 { return o.sourceID }),
	row.Text("name", func(o *routeRow) string { return o.name }),
	row.Text("target", func(o *routeRow) string { return o.Target }),
	row.Text("kind", func(o *routeRow) string { return o.Kind }),
	row.Bytes("digest", func(o *routeRow) []byte { return bytes.Clone(o.Digest) }),
	row.OptionalText("definition", func(o *routeRow) *string { return o.definition }),
	row.OptionalText("key_name", func(o *routeRow) *string { return o.keyName }),
)

func (r *registrar) writeRoutes(ctx context.Context, decided *decidedNames, sources map[string]Registered, past *pastNames) error {
	type place struct {
		source int32
		name   string
	}
	var written []routeRow
	configured := map[place]int{}
	for i := range r.Sources {
		s := &r.Sources[i]
		for j := range s.Routes {
			o := &s.Routes[j]
			d := decided.routes[s.Name][o.Name]
			one := routeRow{Route: o, source: s.Name, sourceID: sources[s.Name].ID, name: cmp.Or(d.now, o.Name), keyName: keyNameOf(d, o.Name)}
			if o.Definition != nil {
				text := string(o.Definition)
				one.definition = &text
			}
			configured[place{one.sourceID, one.name}] = len(written)
			written = append(written, one)
		}
	}
	rows, err := r.tx.Query(ctx, upsertRoutes, routeColumns.Args(written)...)
	if err != nil {
		return err
	}
	var source int32
	var got RegisteredRoute
	var recipes []recipeRow
	_, err = pgx.ForEachRow(rows, []any{&source, &got.ID, &got.Version, &got.Name, &got.KeyName}, func() error {
		o := &written[configured[place{source, got.Name}]]
		d := decided.routes[o.source][o.Route.Name]
		got.Renamed = d.renamed
		sources[o.source].Routes[o.Route.Name] = got
		id := got.ID
		past.add(source, &id, d, o.Route.Name)
		if o.Key != nil {
			recipes = append(recipes, recipeRow{id, o.Key})
		}
		return nil
	})
	if err == nil {
		err = r.writeRecipes(ctx, recipes)
	}
	return err
}

// keyNameOf is the stored key name of a new row; nil is its own name.
func keyNameOf(d nameDecision, name string) *string {
	if d.keyName == "" || d.keyName == name {
		return nil
	}
	return &d.keyName
}

// ON CONFLICT DO UPDATE is right here, because nothing is gated: two processes that start together agree on the id,
// which never changes.
var upsertSources = `
INSERT INTO source (name, provider, class, tenant, emit, tombstone, emit_ordered, key_name, shadow, disabled)
SELECT a.name, a.provider, a.class, a.tenant, a.emit, nullif(a.tombstone, 0) * interval '1 microsecond', a.emit_ordered, a.key_name, a.shadow, a.disabled
FROM unnest(` + sourceColumns.Arrays() + `) WITH ORDINALITY AS a (` + sourceColumns.Names() + `, place)
ORDER BY a.place
ON CONFLICT ON CONSTRAINT source_name_key DO UPDATE
SET provider = excluded.provider, class = excluded.class, tenant = excluded.tenant, emit = excluded.emit,
    tombstone = excluded.tombstone, emit_ordered = excluded.emit_ordered, shadow = excluded.shadow, disabled = excluded.disabled, updated_at = now(),
    awaited_since = CASE WHEN source.disabled AND NOT excluded.disabled THEN now() ELSE source.awaited_since END,
    providers = CASE WHEN source.provider = excluded.provider OR source.provider = ANY (source.providers) THEN source.providers
        ELSE source.providers || source.provider END
RETURNING id, name, coalesce(key_name, name)`

// The version increases only when the definition changes, also when two processes start together: the second sees the
// first's digest. The definitions of all versions are kept; a version that was written without its definition gets it
// from the first process that knows it.
var upsertRoutes = `
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(` + routeColumns.Arrays() + `) WITH ORDINALITY AS a (` + routeColumns.Names() + `, place)),
registered AS (
    INSERT INTO route (source_id, name, target, kind, digest, key_name)
    SELECT a.source_id, a.name, a.target, a.kind, a.digest, a.key_name FROM asked a ORDER BY a.place
    ON CONFLICT ON CONSTRAINT route_name_key DO UPDATE
    SET target = excluded.target, kind = excluded.kind, digest = excluded.digest, updated_at = now(),
        version = route.version + (route.digest <> excluded.digest)::int
    RETURNING source_id, id, version, target, kind, name, coalesce(key_name, name) AS key_name),
described AS (
    INSERT INTO route_version (route_id, version, target, kind, definition)
    SELECT r.id, r.version, r.target, r.kind, coalesce(a.definition::jsonb, '{}')
    FROM registered r JOIN asked a ON a.source_id = r.source_id AND a.name = r.name
    ON CONFLICT ON CONSTRAINT route_version_pkey DO UPDATE
    SET definition = excluded.definition
    WHERE route_version.definition = '{}')
SELECT source_id, id, version, name, key_name FROM registered`
