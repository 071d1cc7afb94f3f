package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Without these a crash of the server's machine can undo a commit that was
// acknowledged. synchronous_commit is not among them: every pool sets it itself.
const readVolatile = `
SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'`

// Volatile returns the names of the server's settings that break the promise: with them
// a commit may be lost when the server's machine stops. A safe server returns none.
func Volatile(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	var names []string
	if err := pool.QueryRow(ctx, readVolatile).Scan(&names); err != nil {
		return nil, fmt.Errorf("reading the server's durability: %w", err)
	}
	return names, nil
}
