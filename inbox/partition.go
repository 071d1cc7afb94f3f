package inbox

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/sleep"
)

// ErrClassName is returned for a retention class whose name cannot name a partition.
var ErrClassName = errors.New(`class name must match [a-z][a-z0-9_]{0,24} and not be "kept" or "erased"`)

var className = regexp.MustCompile(`^[a-z][a-z0-9_]{0,24}$`)

// CheckClassName returns [ErrClassName] unless name can name a class.
func CheckClassName(name string) error {
	if !className.MatchString(name) || name == row.KeptClass || name == row.ErasedClass {
		return fmt.Errorf("class %q: %w", name, ErrClassName)
	}
	return nil
}

// EnsurePartitions makes the body partitions of the classes for the days from
// the day before from to days ahead, where they are missing. Several processes
// may call it at once: each waits a moment for its turn, and then proceeds without it. It makes a new partition as a
// separate table and then attaches it, because PARTITION OF would lock the whole class against reading.
func EnsurePartitions(ctx context.Context, pool *pgxpool.Pool, classes []string, from time.Time, days int) error {
	for _, class := range classes {
		if err := CheckClassName(class); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := takeTurnTx(ctx, tx); err != nil {
				return err
			}
			return ensureTx(ctx, tx, classes, from, days)
		})
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || try == partitionTries || !madeElsewhere(pg.Code) {
			return err
		}
	}
}

func ensureTx(ctx context.Context, tx pgx.Tx, classes []string, from time.Time, days int) error {
	for _, class := range classes {
		if err := ensureClassTx(ctx, tx, class); err != nil {
			return err
		}
		first := from.UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
		for day := range days + 2 {
			if err := ensureDayTx(ctx, tx, class, first.AddDate(0, 0, day)); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	// partitionPatience is how long one process waits for its turn while another makes partitions.
	partitionPatience = time.Second

	// partitionTries limits how often it looks again for partitions that another process has just made.
	partitionTries = 3

	tryPartitions = `SELECT pg_try_advisory_xact_lock($1, $2)`
)

// takeTurnTx waits briefly until no other process makes partitions. The lock only spares work: every role may take it, and
// deliveries wait for the partition of their day.
func takeTurnTx(ctx context.Context, tx pgx.Tx) error {
	patience, cancel := context.WithTimeout(ctx, partitionPatience)
	defer cancel()
	for {
		var obtained bool
		if err := tx.QueryRow(ctx, tryPartitions, advisory.Space, advisory.Partitions).Scan(&obtained); err != nil {
			return fmt.Errorf("locking the partitions: %w", err)
		}
		if obtained || sleep.For(patience, 20*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
}

// madeElsewhere reports whether a table was made by another transaction since it was looked for: there is one of that name or type
// (42P07, 42710, 23505), or it is attached or its bounds are taken (42809, 42P17).
func madeElsewhere(code string) bool {
	return slices.Contains([]string{"42P07", "42710", "23505", "42809", "42P17"}, code)
}

// to_regclass follows the search path, so a table of that name in another schema
// of the path would be taken for ours: the path has one schema.
const partitionExists = `SELECT to_regclass($1) IS NOT NULL`

func missing(ctx context.Context, tx pgx.Tx, table string) (bool, error) {
	var there bool
	if err := tx.QueryRow(ctx, partitionExists, table).Scan(&there); err != nil {
		return false, fmt.Errorf("looking for partition %s: %w", table, err)
	}
	return !there, nil
}

func ensureClassTx(ctx context.Context, tx pgx.Tx, class string) error {
	table := "inbox_body_" + class
	if ok, err := missing(ctx, tx, table); err != nil || !ok {
		return err
	}
	return attachTx(ctx, tx, table, "inbox_body", " PARTITION BY RANGE (id)", "FOR VALUES IN ('"+class+"')")
}

func ensureDayTx(ctx context.Context, tx pgx.Tx, class string, day time.Time) error {
	table := "inbox_body_" + class + day.Format("_20060102")
	if ok, err := missing(ctx, tx, table); err != nil || !ok {
		return err
	}
	bounds := fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", FirstID(day), FirstID(day.AddDate(0, 0, 1)))
	return attachTx(ctx, tx, table, "inbox_body_"+class, "", bounds)
}

// attachTx makes table and attaches it to parent. Names are built from checked
// class names and dates, so they need no quoting.
func attachTx(ctx context.Context, tx pgx.Tx, table, parent, partitioned, bounds string) error {
	create := "CREATE TABLE " + table + " (LIKE " + parent + " INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION)" + partitioned
	if _, err := tx.Exec(ctx, create); err != nil {
		return fmt.Errorf("making partition %s: %w", table, err)
	}
	if _, err := tx.Exec(ctx, "ALTER TABLE "+parent+" ATTACH PARTITION "+table+" "+bounds); err != nil {
		return fmt.Errorf("attaching partition %s: %w", table, err)
	}
	return nil
}
