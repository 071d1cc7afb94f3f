package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// SourceRow is a source of the configuration as [Register] writes it.
type SourceRow struct {
	Name, Provider, Class, Tenant string
	Routes                        []RouteRow

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

// RouteRow is a route of the configuration as [Register] writes it.
type RouteRow struct {
	Name, Target, Kind string

	// Digest identifies the route's definition; another one makes a new version.
	Digest []byte

	// Definition is the definition as a JSON object, for people and for plans. It is
	// kept with each version and must hold no secret; nil is none.
	Definition json.RawMessage
}

// Registered is what [Register] knows about a source.
type Registered struct {
	ID     int32
	Routes map[string]RegisteredRoute // by name
}

// RegisteredRoute is what [Register] knows about a route.
type RegisteredRoute struct {
	ID, Version int32
}

// ON CONFLICT DO UPDATE is right here, where nothing is gated: two processes
// that start together agree on the id, which never changes.
const upsertSource = `
INSERT INTO source (name, provider, class, tenant, emit, tombstone, emit_ordered)
VALUES ($1, $2, $3, $4, $5, nullif($6::interval, '0'), $7)
ON CONFLICT ON CONSTRAINT source_name_key DO UPDATE
SET provider = excluded.provider, class = excluded.class, tenant = excluded.tenant, emit = excluded.emit,
    tombstone = excluded.tombstone, emit_ordered = excluded.emit_ordered, updated_at = now()
RETURNING id`

// The version moves only when the definition does, also when two processes
// start together: the second sees the first's digest. What a version was is kept;
// one that was written without its definition gets it from the first who knows.
const upsertRoute = `
WITH registered AS (
    INSERT INTO route (source_id, name, target, kind, digest) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT ON CONSTRAINT route_name_key DO UPDATE
    SET target = excluded.target, kind = excluded.kind, digest = excluded.digest, updated_at = now(),
        version = route.version + (route.digest <> excluded.digest)::int
    RETURNING id, version, target, kind),
described AS (
    INSERT INTO route_version (route_id, version, target, kind, definition)
    SELECT id, version, target, kind, coalesce($6::jsonb, '{}') FROM registered
    ON CONFLICT ON CONSTRAINT route_version_pkey DO UPDATE
    SET definition = excluded.definition
    WHERE route_version.definition = '{}')
SELECT id, version FROM registered`

// Register writes the sources and routes of the configuration at start and
// gives back their ids, by source name. Rows are never renumbered and never
// deleted: a source that left the configuration keeps its events.
func Register(ctx context.Context, pool *pgxpool.Pool, sources []SourceRow) (map[string]Registered, error) {
	registered := make(map[string]Registered, len(sources))
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, source := range sources {
			r := Registered{Routes: make(map[string]RegisteredRoute, len(source.Routes))}
			if err := tx.QueryRow(ctx, upsertSource, source.Name, source.Provider, source.Class, source.Tenant, source.Emit, source.Tombstone, source.EmitOrdered).Scan(&r.ID); err != nil {
				return fmt.Errorf("registering source %s: %w", source.Name, err)
			}
			for _, route := range source.Routes {
				var row RegisteredRoute
				if err := tx.QueryRow(ctx, upsertRoute, r.ID, route.Name, route.Target, route.Kind, bytes.Clone(route.Digest), route.Definition).Scan(&row.ID, &row.Version); err != nil {
					return fmt.Errorf("registering route %s of source %s: %w", route.Name, source.Name, err)
				}
				r.Routes[route.Name] = row
			}
			registered[source.Name] = r
		}
		return nil
	})
	return registered, err
}
