package prune

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// removableKey is the condition for deleting a key k. A key is deleted when its window and its tombstone's horizon have passed ($1 to $3,
// by route), unless a guard needs it, or the route has an unsettled effect that may
// still ask for it: one received before the key's window ended ($3).
func removableKey(without ...string) string {
	return `
    k.expires_at < now()
    AND EXISTS (
        SELECT FROM unnest($1::int[], $2::timestamptz[], $3::timestamptz[]) AS r (id, received, asked)
        WHERE r.id = k.route_id AND k.received_at < r.received AND k.expires_at < r.asked)` +
		inbox.KeptRows("effect_key", strings.NewReplacer(tableNames()...), without...)
}

func lockDueKeys(without ...string) string {
	return `
WITH page AS MATERIALIZED (
    SELECT route_id, key_hash, expires_at
    FROM effect_key
    WHERE expires_at IS NOT NULL AND expires_at < now()
        AND (expires_at, route_id, key_hash) > ($4::timestamptz, $5::int, $6::bytea)
    ORDER BY expires_at, route_id, key_hash
    LIMIT $7),
due AS MATERIALIZED (
    SELECT k.route_id, k.key_hash
    FROM page p
    JOIN effect_key k ON k.route_id = p.route_id AND k.key_hash = p.key_hash
    WHERE ` + removableKey(without...) + `
    ORDER BY k.route_id, k.key_hash
    FOR UPDATE OF k SKIP LOCKED)
SELECT (SELECT count(*) FROM page), l.expires_at, l.route_id, l.key_hash,
    coalesce((SELECT array_agg(route_id ORDER BY route_id, key_hash) FROM due), '{}'),
    coalesce((SELECT array_agg(key_hash ORDER BY route_id, key_hash) FROM due), '{}')
FROM (SELECT 1) one
LEFT JOIN (SELECT * FROM page ORDER BY expires_at DESC, route_id DESC, key_hash DESC LIMIT 1) l ON true`
}

func deleteKeys(without ...string) string {
	return `
DELETE FROM effect_key k
USING unnest($4::int[], $5::bytea[]) AS d (route_id, key_hash)
WHERE k.route_id = d.route_id AND k.key_hash = d.key_hash AND ` + removableKey(without...)
}

// The effects that are being carried out, through the index of due times. If there are
// more of them than this, keys are kept for now.
const (
	readUnsettledEffects = `SELECT route_id, event_id FROM effect WHERE next_at IS NOT NULL ORDER BY next_at LIMIT 20000`
	maxUnsettledEffects  = 20000
)

// The oldest effect of each route that is at rest or held, except those that are named
// ($3) and past their horizon ($2), because they are about to be removed.
const readOldestAtRest = `
SELECT r.id, f.event_id
FROM unnest($1::int[], $2::uuid[]) AS r (id, cutoff)
CROSS JOIN LATERAL (
    (SELECT e.event_id FROM effect e
     WHERE e.route_id = r.id AND e.state IN ('dead', 'indeterminate') AND NOT (e.state = ANY ($3::text[]) AND e.id < r.cutoff)
     ORDER BY e.id LIMIT 1)
    UNION ALL
    (SELECT e.event_id FROM effect e
     WHERE e.route_id = r.id AND e.state = 'held' AND NOT ('held' = ANY ($3::text[]) AND e.id < r.cutoff)
     ORDER BY e.id LIMIT 1)) f`

// keyBounds are, by route, the times before which a key's event must have been received
// and its window must have ended.
type keyBounds struct {
	routes          []int32
	received, asked []time.Time
}

// keys removes effect keys.
func (s *pass) keys(ctx context.Context) error {
	b, ok, err := s.retention.keyBounds(ctx, s.conn, []string{})
	if err != nil || !ok {
		return err
	}
	return s.runWalk(ctx, &walk{
		name: "effect_key", table: "effect_key", restartAfter: restartEvery,
		batch: func(ctx context.Context, tx pgx.Tx, position string, n int) (batchResult, error) {
			after, err := parseKeyPosition(position)
			if err != nil {
				return batchResult{}, err
			}
			var (
				got       batchResult
				last      *time.Time
				lastRoute *int32
				lastHash  []byte
				dueRoutes []int32
				dueHashes [][]byte
			)
			err = tx.QueryRow(ctx, s.sql.lockKeys, b.routes, b.received, b.asked, after.expires, after.route, row.NotNil(after.hash), n).
				Scan(&got.examined, &last, &lastRoute, &lastHash, &dueRoutes, &dueHashes)
			if err != nil {
				return batchResult{}, err
			}
			got.due = got.examined
			if last != nil {
				got.last = keyPosition{*last, *lastRoute, lastHash}.String()
			}
			if len(dueRoutes) == 0 {
				return got, nil
			}
			tag, err := tx.Exec(ctx, s.sql.deleteKeys, b.routes, b.received, b.asked, dueRoutes, dueHashes)
			got.removed = tag.RowsAffected()
			return got, err
		},
	})
}

// keyBounds reads the bounds. included are states that are about to be settled. ok is
// false if too many effects are being carried out to tell.
func (r *retention) keyBounds(ctx context.Context, db row.Querier, included []string) (b keyBounds, ok bool, err error) {
	oldest := map[int32]time.Time{}
	var route int32
	var event inbox.ID
	seen := 0
	note := func() error {
		seen++
		if at := event.Time(); oldest[route].IsZero() || at.Before(oldest[route]) {
			oldest[route] = at
		}
		return nil
	}
	rows, err := db.Query(ctx, readUnsettledEffects)
	if err != nil {
		return b, false, err
	}
	if _, err = pgx.ForEachRow(rows, []any{&route, &event}, note); err != nil || seen >= maxUnsettledEffects {
		return b, false, err
	}
	routes, cutoffs := r.routeCutoffs()
	if rows, err = db.Query(ctx, readOldestAtRest, routes, cutoffs, included); err != nil {
		return b, false, err
	}
	if _, err = pgx.ForEachRow(rows, []any{&route, &event}, note); err != nil {
		return b, false, err
	}
	b.routes = routes
	for _, id := range routes {
		b.received = append(b.received, r.now.Add(-r.routes[id].Tombstone-tombstoneSlack))
		bound := r.now
		if at, waits := oldest[id]; waits {
			bound = at
		}
		b.asked = append(b.asked, bound)
	}
	return b, true, nil
}

// keyPosition is a place in the order of expiry.
type keyPosition struct {
	expires time.Time
	route   int32
	hash    []byte
}

// String is how a walk notes it.
func (p keyPosition) String() string {
	return p.expires.UTC().Format(time.RFC3339Nano) + "|" + strconv.Itoa(int(p.route)) + "|" + hex.EncodeToString(p.hash)
}

func parseKeyPosition(text string) (p keyPosition, err error) {
	if text == "" {
		return keyPosition{}, nil
	}
	parts := strings.Split(text, "|")
	if len(parts) != 3 {
		return p, errors.New("the position among keys is not one")
	}
	route, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return p, err
	}
	p.route = int32(route)
	if p.expires, err = time.Parse(time.RFC3339Nano, parts[0]); err != nil {
		return p, err
	}
	p.hash, err = hex.DecodeString(parts[2])
	return p, err
}
