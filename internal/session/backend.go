package session

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backend is a session of the server, as pg_stat_activity shows it. Messages about locks name it. A role
// without pg_read_all_stats sees the process, the role and the application of sessions of other
// roles, and nothing else.
type Backend struct {
	PID         int32
	Role        string
	Application string
	// Address is where the session comes from; empty for a local socket or if the server hides it.
	Address string
	// State is what it does, such as "idle in transaction".
	State string
	// TransactionSince is when its transaction began, StateSince when it came to do
	// what it does; zero where the server does not tell.
	TransactionSince, StateSince time.Time
}

// Attrs are the members of a log line that names the session.
func (b *Backend) Attrs() []slog.Attr {
	if b == nil {
		return nil
	}
	return []slog.Attr{
		slog.Int("pid", int(b.PID)), slog.String("role", b.Role), slog.String("application", b.Application), slog.String("address", b.Address),
		slog.String("state", b.State), slog.Time("transaction_since", b.TransactionSince), slog.Time("state_since", b.StateSince),
	}
}

// String implements [fmt.Stringer].
func (b Backend) String() string {
	from := cmp.Or(b.Application, "no application name")
	if b.Role != "" {
		from += ", role " + b.Role
	}
	if b.Address != "" {
		from += ", from " + b.Address
	}
	since := b.TransactionSince
	if since.IsZero() {
		since = b.StateSince
	}
	from += ", " + cmp.Or(b.State, "state unknown")
	if !since.IsZero() {
		from += " since " + since.UTC().Format("2006-01-02 15:04:05Z")
	}
	return fmt.Sprintf("pid %d (%s)", b.PID, from)
}

// HoldersText names the sessions that have a lock.
func HoldersText(holders []Backend) string {
	if len(holders) == 0 {
		return "who has the lock is not known"
	}
	names := make([]string, len(holders))
	for i, h := range holders {
		names[i] = h.String()
	}
	if len(holders) == 1 {
		return names[0] + " has the lock"
	}
	return strings.Join(names, ", ") + " have the locks"
}

// readBackends reads the sessions of the processes that a query selects. Its parameters are the query's.
const readBackends = `
SELECT a.pid, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''), coalesce(a.state, ''),
    a.xact_start, a.state_change
FROM pg_stat_activity a
WHERE a.pid = ANY (ARRAY (%s)) AND a.pid <> pg_backend_pid()
ORDER BY a.pid`

// Querier asks the server: a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// ReadBackends returns the sessions of the processes that the statement pids selects, except the caller's own.
func ReadBackends(ctx context.Context, db Querier, pids string, args ...any) ([]Backend, error) {
	rows, err := db.Query(ctx, fmt.Sprintf(readBackends, pids), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Backend, err error) {
		var began, changed *time.Time
		err = row.Scan(&b.PID, &b.Role, &b.Application, &b.Address, &b.State, &began, &changed)
		if began != nil {
			b.TransactionSince = *began
		}
		if changed != nil {
			b.StateSince = *changed
		}
		return b, err
	})
}

// ReadBlockers returns the sessions for which the process waits.
func ReadBlockers(ctx context.Context, db Querier, pid int32) ([]Backend, error) {
	return ReadBackends(ctx, db, `SELECT unnest(pg_blocking_pids($1::int))`, pid)
}
