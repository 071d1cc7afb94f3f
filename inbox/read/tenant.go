package read

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// The first of some ids that is neither an effect nor an event nor a conflict of a tenant. Each is looked up by its primary key.
const findForeign = `
SELECT a.id
FROM unnest($1::uuid[]) WITH ORDINALITY AS a (id, place)
WHERE NOT EXISTS (
        SELECT FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN source s ON s.id = v.source_id
        WHERE e.id = a.id AND coalesce(v.tenant, s.tenant) = $2)
    AND NOT EXISTS (
        SELECT FROM inbox_event v JOIN source s ON s.id = v.source_id
        WHERE v.id = a.id AND coalesce(v.tenant, s.tenant) = $2)
    AND NOT EXISTS (
        SELECT FROM conflict c JOIN inbox_event v ON v.id = c.event_id JOIN source s ON s.id = v.source_id
        WHERE c.id = a.id AND coalesce(v.tenant, s.tenant) = $2)
ORDER BY a.place
LIMIT 1`

// CheckTenant returns [inbox.ErrNotFound] for the first of the ids that is neither an effect nor an event nor a conflict of the tenant, so
// that a tenant learns nothing about other tenants. With an empty tenant it checks nothing.
func (l *Lister) CheckTenant(ctx context.Context, tenant string, ids ...inbox.ID) error {
	if tenant == "" || len(ids) == 0 {
		return nil
	}
	var foreign inbox.ID
	err := l.pool.QueryRow(ctx, findForeign, ids, tenant).Scan(&foreign)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("reading whose effects these are: %w", err)
	}
	return fmt.Errorf("%w: nothing has the id %s", inbox.ErrNotFound, foreign)
}

// A decision about a stream affects the effects that wait in it, block it or are being carried out. The people of a
// tenant decide nothing about a stream with no such effect of the tenant, or with one of another tenant.
const checkStreamTenant = `
SELECT coalesce(bool_and(w.tenant = $2), false)
FROM (
    SELECT coalesce(v.tenant, s.tenant) AS tenant
    FROM stream st
    JOIN effect e ON e.route_id = st.route_id AND e.sequence_key_hash = st.key_hash AND e.state = 'held'
    JOIN inbox_event v ON v.id = e.event_id
    JOIN source s ON s.id = v.source_id
    WHERE st.id = $1
    UNION ALL
    SELECT coalesce(v.tenant, s.tenant)
    FROM stream st
    JOIN effect e ON e.id IN (st.blocked_by, st.in_flight)
    JOIN inbox_event v ON v.id = e.event_id
    JOIN source s ON s.id = v.source_id
    WHERE st.id = $1) w`

// CheckStreamTenant returns [inbox.ErrNotFound] for a stream that is not the tenant's alone: one in which no effect of the
// tenant waits, blocks or is being carried out, or in which one of another tenant does. With an empty tenant it checks
// nothing.
func (l *Lister) CheckStreamTenant(ctx context.Context, tenant string, stream int64) error {
	if tenant == "" {
		return nil
	}
	var own bool
	if err := l.pool.QueryRow(ctx, checkStreamTenant, stream, tenant).Scan(&own); err != nil {
		return fmt.Errorf("reading whose stream %d is: %w", stream, err)
	}
	if !own {
		return fmt.Errorf("stream %d: %w", stream, inbox.ErrNotFound)
	}
	return nil
}

const readSourceTenant = `SELECT tenant FROM source WHERE name = $1`

// SourceTenant returns the tenant of a source; empty if it has none. It returns [inbox.ErrNotFound] for a source that no
// server was ever started with.
func (l *Lister) SourceTenant(ctx context.Context, source string) (string, error) {
	var tenant string
	err := l.pool.QueryRow(ctx, readSourceTenant, source).Scan(&tenant)
	if errors.Is(err, pgx.ErrNoRows) {
		err = inbox.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("source %s: %w", source, err)
	}
	return tenant, nil
}
