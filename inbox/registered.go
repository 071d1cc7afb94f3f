package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Registry is what [Register] has written, by whatever process, read back
// without writing.
type Registry struct {
	// Sources are those of the table, by name, with their routes by name.
	Sources map[string]Registered

	// Current are the digests of the routes' versions in use.
	Current map[int32][]byte

	versions map[routeVersion]RouteVersion
}

type routeVersion struct{ route, version int32 }

// RouteVersion is what a route was in one of its versions.
type RouteVersion struct {
	Target, Kind string

	// Definition is as in [RouteRow]; an empty object if nothing more is known.
	Definition json.RawMessage
}

const readRegistry = `
SELECT s.id, s.name, r.id, r.name, r.version, r.digest, v.version, v.target, v.kind, v.definition
FROM source s
LEFT JOIN route r ON r.source_id = s.id
LEFT JOIN route_version v ON v.route_id = r.id`

// ReadRegistry reads which sources and routes are registered, with all versions
// of the routes. It writes nothing.
func ReadRegistry(ctx context.Context, pool *pgxpool.Pool) (*Registry, error) {
	rows, err := pool.Query(ctx, readRegistry)
	if err != nil {
		return nil, fmt.Errorf("reading sources and routes: %w", err)
	}
	out := &Registry{Sources: map[string]Registered{}, Current: map[int32][]byte{}, versions: map[routeVersion]RouteVersion{}}
	var (
		source, routeID, current, version *int32
		name, route, target, kind         *string
		digest, definition                []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&source, &name, &routeID, &route, &current, &digest, &version, &target, &kind, &definition}, func() error {
		registered, ok := out.Sources[*name]
		if !ok {
			registered = Registered{ID: *source, Routes: map[string]RegisteredRoute{}}
			out.Sources[*name] = registered
		}
		if routeID == nil {
			return nil
		}
		registered.Routes[*route] = RegisteredRoute{ID: *routeID, Version: *current}
		out.Current[*routeID] = bytes.Clone(digest)
		if version != nil {
			out.versions[routeVersion{*routeID, *version}] = RouteVersion{Target: *target, Kind: *kind, Definition: bytes.Clone(definition)}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading sources and routes: %w", err)
	}
	return out, nil
}

// Version gives what a route was in one of its versions; ok is false if that is
// not known.
func (r *Registry) Version(route int32, version int) (v RouteVersion, ok bool) {
	v, ok = r.versions[routeVersion{route, int32(version)}]
	return v, ok
}
