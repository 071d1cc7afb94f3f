package lab

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Execute runs statements on a server, each outside of a transaction.
func Execute(ctx context.Context, s *devpg.Server, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	var errs []error
	for _, statement := range statements {
		_, err := conn.Exec(ctx, statement)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, conn.Close(ctx))...)
}

// JoinHosts returns a connection string that names the hosts of all others, and leads to the one that takes writes. Everything but the host
// is the first one's.
func JoinHosts(dsns ...string) (string, error) {
	var out *url.URL
	for _, dsn := range dsns {
		u, err := url.Parse(dsn)
		if err != nil {
			return "", fmt.Errorf("reading an address: %w", err)
		}
		if out == nil {
			out = u
			continue
		}
		out.Host += "," + u.Host
	}
	return out.String() + "&target_session_attrs=read-write", nil
}

// PromoteAlone makes a standby the primary. The new primary waits for no standby, because it has none yet.
func PromoteAlone(ctx context.Context, next *devpg.Server) error {
	if err := Execute(ctx, next, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	return next.Promote(ctx)
}

const countStreaming = `SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND (sync_state <> 'async') = $1`

// AwaitStandby waits until the standby of a primary has what the primary has. If it is to be synchronous, commits wait for it from then on.
func AwaitStandby(ctx context.Context, primary *devpg.Server, synchronous bool, limit time.Duration) error {
	if synchronous {
		if err := Execute(ctx, primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"); err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, primary.DSN())
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return rig.Until(ctx, limit, "the standby to stream", func() (bool, error) {
		var n int
		err := conn.QueryRow(ctx, countStreaming, synchronous).Scan(&n)
		return n == 1, err
	})
}

// EndPair stops the server of a primary and its standby that is not the world's own, whichever part it plays by now. The world stops its
// own, with the data that it has then. Either may be nil.
func (w *World) EndPair(primary, standby *devpg.Server) error {
	var errs []error
	for _, s := range []*devpg.Server{primary, standby} {
		if s != nil && Running(s) {
			errs = append(errs, s.Thaw())
		}
	}
	other := standby
	if other == w.Server {
		other = primary
	}
	if other != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		errs = append(errs, other.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Running reports whether a server runs, or is frozen.
func Running(s *devpg.Server) bool {
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}
