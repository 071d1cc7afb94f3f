package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	readPastSource = `
SELECT s.name, p.at
FROM past_name p
JOIN source s ON s.id = p.source_id
WHERE p.route_id IS NULL AND p.name = $1 AND NOT EXISTS (SELECT FROM source c WHERE c.name = $1)
ORDER BY p.id DESC
LIMIT 1`

	readPastRoute = `
SELECT r.name, p.at
FROM past_name p
JOIN route r ON r.id = p.route_id
JOIN source s ON s.id = p.source_id
WHERE p.name = $2 AND ($1::text = '' OR s.name = $1)
    AND NOT EXISTS (SELECT FROM route c JOIN source k ON k.id = c.source_id WHERE c.name = $2 AND ($1::text = '' OR k.name = $1))
ORDER BY p.id DESC
LIMIT 1`
)

// PresentSource returns the current name of the source that had the name before, and
// when it was renamed. The result is empty if a source has the name now, or none ever
// had it.
func PresentSource(ctx context.Context, pool *pgxpool.Pool, name string) (now string, at time.Time, err error) {
	return presentName(pool.QueryRow(ctx, readPastSource, name))
}

// PresentRoute is [PresentSource] for a route of a source, or of any if source is empty.
func PresentRoute(ctx context.Context, pool *pgxpool.Pool, source, name string) (now string, at time.Time, err error) {
	return presentName(pool.QueryRow(ctx, readPastRoute, source, name))
}

func presentName(row pgx.Row) (now string, at time.Time, err error) {
	err = row.Scan(&now, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", time.Time{}, nil
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("reading past names: %w", err)
	}
	return now, at, nil
}
