package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/session"
)

// fault says how the gate handles an error of a run.
type fault int

const (
	// faultAmbiguous: the connection was lost, or the server ended it. The statements
	// may have been committed, so the group runs again on a new connection, once: that
	// either inserts the rows, or finds our own.
	faultAmbiguous fault = iota
	// faultSplit: the transaction was rolled back because of one of its deliveries (a
	// value, the lock of a row). Each is tried alone.
	faultSplit
	// faultShared: the transaction was rolled back for a reason that each of its
	// deliveries alone would meet as well (the lock of a table, a cancelled statement).
	// The group stays together and runs again until its deadline.
	faultShared
	// faultPartition: a body's day has no partition. It is made, and the group run
	// again.
	faultPartition
	// faultServer: the transaction was rolled back for a reason that concerns all
	// deliveries (disk full, read-only). None is acknowledged.
	faultServer
)

// classify decides by the server's answer. Only an ERROR is a rollback: FATAL and PANIC
// end the connection, and may answer a COMMIT that took effect. pgconn.SafeToRetry is
// not used, because it is wrong for COMMIT.
func classify(err error) fault {
	if errors.Is(err, ErrNoStandby) {
		return faultServer // it is committed, and another run would find the same
	}
	if errors.Is(err, errKeyNotFound) || errors.Is(err, errBodyGone) || errors.Is(err, errSameParent) {
		return faultSplit
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.SeverityUnlocalized != "ERROR" {
		return faultAmbiguous
	}
	switch {
	case session.Stale(pg):
		return faultAmbiguous // its connection is closed, and nothing of it was committed
	case pg.Code == "23514" && pg.ConstraintName == "" && strings.HasPrefix(pg.TableName, "inbox_body"):
		return faultPartition
	case pg.Code == "55P03" && pg.Where == "", pg.Code == "57014":
		// Only a wait for a row has a context, which names its tuple; one for a table
		// has none, in any language of the server's messages.
		return faultShared
	case pg.Code == "40001", pg.Code == "40P01", pg.Code == "55P03", pg.Code == inbox.CodeMoved,
		strings.HasPrefix(pg.Code, "22"), strings.HasPrefix(pg.Code, "23"), strings.HasPrefix(pg.Code, "54"):
		return faultSplit
	default:
		return faultServer
	}
}

// resetAfter empties the pool when the server has said that it shuts down or was
// demoted, because its other connections would fail one by one.
func (g *Gate) resetAfter(err error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return
	}
	switch pg.Code {
	case "25006", "57P01", "57P02", "57P03":
		g.cfg.Pool.Reset()
	}
}

func (g *Gate) makePartitions(group *group) error {
	seen := map[string]bool{}
	var classes []string
	var oldest time.Time
	for _, d := range group.deliveries {
		if class := d.admission.Source.Class; !seen[class] {
			seen[class] = true
			classes = append(classes, class)
		}
		if at := d.bodyID.Time(); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.Deadline)
	defer cancel()
	g.stats.partitions.Add(1)
	return inbox.EnsurePartitions(ctx, g.cfg.Pool, classes, oldest, 1)
}

// fail answers every delivery with the error for 503. The log line names the first key
// and never quotes content.
func (g *Gate) fail(deliveries []*delivery, err error) {
	first := &deliveries[0].entries[0]
	g.cfg.Logger.Error("deliveries not recorded", slog.String("source", first.source().Name),
		slog.Int("deliveries", len(deliveries)), slog.String("reason", row.ErrorText(err)))
	g.stats.failed.Add(uint64(len(deliveries)))
	kind := ErrUnavailable
	if classify(err) == faultSplit {
		kind = errDelivery
	} else {
		first.delivery.lane.health.failed(g.cfg.Clock.Local(), publicErrorText(err))
	}
	for _, d := range deliveries {
		why := fmt.Errorf("%w: recording %s/%s: %s", kind, d.admission.Source.Name, d.entries[0].eventID, row.ErrorText(err))
		if errors.Is(err, ErrNoStandby) {
			why = fmt.Errorf("%w: recording %s/%s: %w", ErrUnavailable, d.admission.Source.Name, d.entries[0].eventID, ErrNoStandby)
		}
		d.answer(why)
	}
}

// poolConn is a [Conn] of a pool.
type poolConn struct{ *pgxpool.Conn }

func acquireFrom(pool *pgxpool.Pool) Acquire {
	return func(ctx context.Context) (Conn, error) {
		// A pool that is this busy is overload, not slowness.
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		c, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return poolConn{c}, nil
	}
}

func (c poolConn) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return c.Conn.SendBatch(ctx, b)
}

func (c poolConn) Warned() bool { return session.TakeWarning(c.Conn.Conn()) }

func (c poolConn) Release(broken bool) {
	if broken {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Conn.Conn().Close(ctx)
	}
	c.Conn.Release()
}
