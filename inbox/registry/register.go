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
)

// Source is a source of the configuration as [Register] writes it.
type Source struct {
	Name, Provider, Class, Tenant string
	Routes                        []Route

	// PreviousNames are the names that the source had before. A row of the database with
	// one of them gets the new name and keeps all it has. Names that never existed do no
	// harm. The source's own name among them says that its keys are the same ones, whatever
	// provider it had before.
	PreviousNames []string

	// Separate says that the source is none of those that were there before: without it, a
	// new source is refused while one of its provider that is no longer configured holds
	// keys.
	Separate bool

	// Emit opens the source to the SQL function emit.
	Emit bool

	// EmitOrdered keeps the order in which transactions that emit to the source commit,
	// for routes that carry effects out in the order of arrival. Such commits are made
	// one after the other.
	EmitOrdered bool

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

	// Key says how the keys of the route are made; nil is by no recipe.
	Key *KeyRecipe

	// Digest identifies the route's definition; another one makes a new version.
	Digest []byte

	// Definition is the definition as a JSON object, for people and for plans. It is
	// kept with each version and must hold no secret; nil is none.
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

// Register writes the sources and routes of the configuration at start and gives back
// their ids, by source name. Rows are never renumbered and never deleted: a source that
// left the configuration keeps its events. It returns [ErrNames] for a configuration
// that does not fit the names in the database.
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

// Two processes that start at once must not decide differently about a name, and an
// earlier version of the program must not insert one while it is decided about. Readers
// are not held up. Keys are counted through their index, whatever the statistics say.
const lockNames = `
LOCK TABLE source, route IN SHARE ROW EXCLUSIVE MODE;
SELECT set_config('oncegate.names', 'known', true), set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)`

// registering is a registration under way.
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
	out := make(map[string]Registered, len(r.Sources))
	for _, source := range r.Sources {
		d := decided.sources[source.Name]
		row := Registered{Renamed: d.renamed, Routes: make(map[string]RegisteredRoute, len(source.Routes))}
		err := r.tx.QueryRow(ctx, upsertSource, cmp.Or(d.now, source.Name), source.Provider, source.Class, source.Tenant, source.Emit,
			source.Tombstone, source.EmitOrdered, keyNameOf(d, source.Name)).Scan(&row.ID, &row.Name, &row.KeyName)
		if err != nil {
			return nil, fmt.Errorf("registering source %s: %w", source.Name, err)
		}
		if err := r.writePastNames(ctx, row.ID, nil, d, source.Name); err != nil {
			return nil, fmt.Errorf("registering source %s: %w", source.Name, err)
		}
		for _, route := range source.Routes {
			d := decided.routes[source.Name][route.Name]
			to := RegisteredRoute{Renamed: d.renamed}
			err := r.tx.QueryRow(ctx, upsertRoute, row.ID, cmp.Or(d.now, route.Name), route.Target, route.Kind, bytes.Clone(route.Digest),
				route.Definition, keyNameOf(d, route.Name)).Scan(&to.ID, &to.Version, &to.Name, &to.KeyName)
			if err == nil {
				err = r.writePastNames(ctx, row.ID, &to.ID, d, route.Name)
			}
			if err == nil {
				err = r.recipe(ctx, to.ID, route.Key)
			}
			if err != nil {
				return nil, fmt.Errorf("registering route %s of source %s: %w", route.Name, source.Name, err)
			}
			row.Routes[route.Name] = to
		}
		out[source.Name] = row
	}
	return out, nil
}

// keyNameOf is the stored key name of a new row; nil is its own name.
func keyNameOf(d nameDecision, name string) *string {
	if d.keyName == "" || d.keyName == name {
		return nil
	}
	return &d.keyName
}

// ON CONFLICT DO UPDATE is right here, where nothing is gated: two processes
// that start together agree on the id, which never changes.
const upsertSource = `
INSERT INTO source (name, provider, class, tenant, emit, tombstone, emit_ordered, key_name)
VALUES ($1, $2, $3, $4, $5, nullif($6::interval, '0'), $7, $8)
ON CONFLICT ON CONSTRAINT source_name_key DO UPDATE
SET provider = excluded.provider, class = excluded.class, tenant = excluded.tenant, emit = excluded.emit,
    tombstone = excluded.tombstone, emit_ordered = excluded.emit_ordered, updated_at = now(),
    providers = CASE WHEN source.provider = excluded.provider OR source.provider = ANY (source.providers) THEN source.providers
        ELSE source.providers || source.provider END
RETURNING id, name, coalesce(key_name, name)`

// The version moves only when the definition does, also when two processes
// start together: the second sees the first's digest. What a version was is kept;
// one that was written without its definition gets it from the first who knows.
const upsertRoute = `
WITH registered AS (
    INSERT INTO route (source_id, name, target, kind, digest, key_name) VALUES ($1, $2, $3, $4, $5, $7)
    ON CONFLICT ON CONSTRAINT route_name_key DO UPDATE
    SET target = excluded.target, kind = excluded.kind, digest = excluded.digest, updated_at = now(),
        version = route.version + (route.digest <> excluded.digest)::int
    RETURNING id, version, target, kind, name, coalesce(key_name, name) AS key_name),
described AS (
    INSERT INTO route_version (route_id, version, target, kind, definition)
    SELECT id, version, target, kind, coalesce($6::jsonb, '{}') FROM registered
    ON CONFLICT ON CONSTRAINT route_version_pkey DO UPDATE
    SET definition = excluded.definition
    WHERE route_version.definition = '{}')
SELECT id, version, name, key_name FROM registered`
