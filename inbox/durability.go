package inbox

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Durability says what a commit waits for before its deliveries are acknowledged. The empty Durability is [DurabilityServer].
type Durability string

const (
	// DurabilityLocal waits for the primary's disk alone, even where the server names synchronous standbys. A failover may lose events
	// that were acknowledged.
	DurabilityLocal Durability = "local"

	// DurabilityServer waits for the primary's disk, and for the disks of the standbys that synchronous_standby_names asks for. While
	// the server names none, it is the same as DurabilityLocal.
	DurabilityServer Durability = "server"

	// DurabilityQuorum waits as DurabilityServer does, and acknowledges nothing while the server names no synchronous standby.
	DurabilityQuorum Durability = "quorum"

	// DurabilityApply is DurabilityQuorum, and the standbys must also have applied the commit, so that their readers see it.
	DurabilityApply Durability = "apply"
)

// Durabilities returns all of them, the weakest first.
func Durabilities() []Durability {
	return []Durability{DurabilityLocal, DurabilityServer, DurabilityQuorum, DurabilityApply}
}

// SynchronousCommit returns the value of PostgreSQL's setting synchronous_commit under which a transaction must commit.
func (d Durability) SynchronousCommit() string {
	switch d {
	case DurabilityLocal:
		return "local"
	case DurabilityApply:
		return "remote_apply"
	case DurabilityServer, DurabilityQuorum:
	}
	return "on"
}

// NeedsStandby reports whether the durability promises nothing while the server names no synchronous standby.
func (d Durability) NeedsStandby() bool { return d == DurabilityQuorum || d == DurabilityApply }

// Compare returns a negative number if d is weaker than other, and a positive number if it is stricter.
func (d Durability) Compare(other Durability) int { return d.rank() - other.rank() }

func (d Durability) rank() int {
	if d == "" {
		d = DurabilityServer
	}
	return slices.Index(Durabilities(), d)
}

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

// CheckStandbys returns an error if the server names no synchronous standby although keys of the configuration ask for one. It returns
// nil if there are no keys.
func CheckStandbys(ctx context.Context, pool *pgxpool.Pool, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	var named bool
	if err := pool.QueryRow(ctx, `SELECT current_setting('synchronous_standby_names') <> ''`).Scan(&named); err != nil {
		return fmt.Errorf("reading the server's durability: %w", err)
	}
	if !named {
		return &NoStandbyError{Keys: keys}
	}
	return nil
}

// NoStandbyError says that keys of the configuration ask for standbys, and the server names none.
type NoStandbyError struct{ Keys []string }

// Error is one line that says what to set.
func (e *NoStandbyError) Error() string {
	return strings.Join(e.Keys, ", ") + ": the server names no synchronous standby, so deliveries would be answered 503: " +
		"set synchronous_standby_names at the server, or the key to server"
}
