package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Registry is the data that [Register] has written, in any process, read without writing.
type Registry struct {
	// Sources are the sources of the table, by name, with their routes by name.
	Sources map[string]Registered

	// Current are the digests of the routes' versions in use.
	Current map[int32][]byte

	versions map[routeVersion]RouteVersion
	names    *knownNames
}

type routeVersion struct{ route, version int32 }

// RouteVersion is the definition of a route in one of its versions.
type RouteVersion struct {
	Target, Kind string

	// Definition is as in [Route]; an empty object if nothing more is known.
	Definition json.RawMessage
}

const readRegistry = `
SELECT s.id, s.name, coalesce(s.key_name, s.name), r.id, r.name, coalesce(r.key_name, r.name), r.version, r.digest, v.version, v.target, v.kind, v.definition
FROM source s
LEFT JOIN route r ON r.source_id = s.id
LEFT JOIN route_version v ON v.route_id = r.id`

// Read reads which sources and routes are registered, with all versions
// of the routes. It writes nothing.
func Read(ctx context.Context, pool *pgxpool.Pool) (*Registry, error) {
	rows, err := pool.Query(ctx, readRegistry)
	if err != nil {
		return nil, fmt.Errorf("reading sources and routes: %w", err)
	}
	out := &Registry{Sources: map[string]Registered{}, Current: map[int32][]byte{}, versions: map[routeVersion]RouteVersion{}}
	var (
		source, routeID, current, version            *int32
		name, keyName, route, routeKey, target, kind *string
		digest, definition                           []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&source, &name, &keyName, &routeID, &route, &routeKey, &current, &digest, &version, &target, &kind, &definition}, func() error {
		registered, ok := out.Sources[*name]
		if !ok {
			registered = Registered{ID: *source, Name: *name, KeyName: *keyName, Routes: map[string]RegisteredRoute{}}
			out.Sources[*name] = registered
		}
		if routeID == nil {
			return nil
		}
		registered.Routes[*route] = RegisteredRoute{ID: *routeID, Version: *current, Name: *route, KeyName: *routeKey}
		out.Current[*routeID] = bytes.Clone(digest)
		if version != nil {
			out.versions[routeVersion{*routeID, *version}] = RouteVersion{Target: *target, Kind: *kind, Definition: bytes.Clone(definition)}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading sources and routes: %w", err)
	}
	if out.names, err = readNames(ctx, pool); err != nil {
		return nil, err
	}
	return out, nil
}

// Resolve returns the rows of a configuration's sources, and of their routes, by
// configured name. It also finds rows by a former name, and rows that are renamed as soon
// as a server starts with the configuration. Sources and routes without a row are left
// out. It returns [ErrNames] as [Register] would.
func (r *Registry) Resolve(sources []Source) (map[string]Registered, error) {
	decided, err := r.names.decide(sources)
	if err != nil {
		return nil, err
	}
	byID := map[int32]Registered{}
	routes := map[int32]RegisteredRoute{}
	for _, s := range r.Sources {
		byID[s.ID] = s
		for _, route := range s.Routes {
			routes[route.ID] = route
		}
	}
	out := map[string]Registered{}
	for name, d := range decided.sources {
		if d.row == 0 {
			continue
		}
		row := byID[d.row]
		row.Renamed, row.Routes = d.renamed, map[string]RegisteredRoute{}
		for name, d := range decided.routes[name] {
			if route, ok := routes[d.row]; ok {
				route.Renamed = d.renamed
				row.Routes[name] = route
			}
		}
		out[name] = row
	}
	return out, nil
}

// Version returns the definition of a route in one of its versions; ok is false if it is
// unknown.
func (r *Registry) Version(route int32, version int) (v RouteVersion, ok bool) {
	v, ok = r.versions[routeVersion{route, int32(version)}]
	return v, ok
}
