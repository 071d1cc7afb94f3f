package main

import (
	"context"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// checkPruned prunes everything that may be pruned, and compares what the command reports with the rows.
func (c *campaign) checkPruned(ctx context.Context) error {
	count := func() (n int64, err error) { return n, c.db.QueryRow(ctx, `SELECT count(*) FROM effect`).Scan(&n) }
	before, err := count()
	if err != nil {
		return err
	}
	var out prune.Report
	o := &operator{campaign: c, name: "end", random: c.randomFor(0, 224)}
	a, err := o.runCommand(ctx, commandOptions{kind: "prune --include", decides: true, confirms: true, neverKilled: true}, &out, "prune", "--include", "dead,indeterminate,held,replay")
	if err != nil {
		return err
	}
	after, err := count()
	if err != nil {
		return err
	}
	if a.ExitCode == 0 {
		c.violate(compareCount(a.String()+", effects that were removed", out.Rows["effect"], before-after)...)
	}
	return nil
}

// checkResealed rotates keys once more while nothing runs, and checks that everything is sealed with the new key.
func (c *campaign) checkResealed(ctx context.Context) error {
	o := &operator{campaign: c, name: "end", random: c.randomFor(0, 225)}
	if err := c.markDead(ctx); err != nil {
		return err
	}
	rows, err := o.readKeys(ctx)
	if err != nil {
		return err
	}
	if newest := newestKey(rows); newest > activeKey(rows) {
		err = o.mustRun(ctx, "keys activate", nil, "keys", "activate", fmt.Sprint(newest))
	} else {
		err = o.mustRun(ctx, "keys rotate", nil, "keys", "rotate")
	}
	if err != nil {
		return err
	}
	if rows, err = o.readKeys(ctx); err != nil {
		return err
	}
	due := countUnderOldKeys(rows)
	var out struct{ Resealed, Unreadable int64 }
	if err := o.mustRun(ctx, "keys reseal", &out, "keys", "reseal"); err != nil {
		return err
	}
	c.violate(compareCount("keys reseal, values that were under other keys", out.Resealed, due)...)
	c.violate(compareCount("keys reseal, values that cannot be opened", out.Unreadable, 0)...)
	if rows, err = o.readKeys(ctx); err != nil {
		return err
	}
	c.violate(leftUnderOldKeys(rows)...)
	for _, r := range rows {
		if !r.Active {
			if err := o.mustRun(ctx, "keys remove", nil, "keys", "remove", fmt.Sprint(r.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A marker as text, and as the bytes of a bytea are written.
var (
	plainMarker = regexp.MustCompile(`mark-[0-9a-f]{12}`)
	bytesMarker = regexp.MustCompile(`6d61726b2d((?:3[0-9]|6[1-6]){12})`)
)

// checkLeaks searches every table for content that must be gone: the content of erased events and, if everything is
// sealed, any plain content.
func (c *campaign) checkLeaks(ctx context.Context, sealed bool) error {
	rows, err := c.db.Query(ctx, `SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY 1`)
	if err != nil {
		return fmt.Errorf("listing tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("listing tables: %w", err)
	}
	conn, err := c.db.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("reading tables: %w", err)
	}
	defer conn.Release()
	for _, table := range tables {
		content, err := copyOut(ctx, conn.Conn().PgConn(), table)
		if err != nil {
			return err
		}
		c.violate(findLeaks(table, content, c.deliveries.events, sealed)...)
	}
	return c.checkOrderKeys(ctx)
}

const keysOfErased = `
SELECT s.id, src.name || '/' || v.event_id
FROM inbox_event v
JOIN source src ON src.id = v.source_id
JOIN effect e ON e.event_id = v.id
JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash
WHERE v.class = 'erased' AND (s.key_label IS NOT NULL OR s.key_label_sealed IS NOT NULL)`

// checkOrderKeys looks for streams that still hold their order key, in plain text or sealed, although one of their
// events was erased.
func (c *campaign) checkOrderKeys(ctx context.Context) error {
	rows, err := c.db.Query(ctx, keysOfErased)
	if err != nil {
		return fmt.Errorf("looking for the keys of erased events: %w", err)
	}
	var stream int64
	var event string
	_, err = pgx.ForEachRow(rows, []any{&stream, &event}, func() error {
		c.violate(rig.NewViolation(keptOrderKey, "stream %d has its key though %s was erased", stream, event))
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking for the keys of erased events: %w", err)
	}
	return nil
}

func copyOut(ctx context.Context, conn *pgconn.PgConn, table string) ([]byte, error) {
	var out writer
	if _, err := conn.CopyTo(ctx, &out, "COPY (SELECT * FROM "+pgx.Identifier{table}.Sanitize()+") TO STDOUT"); err != nil {
		return nil, fmt.Errorf("reading table %s: %w", table, err)
	}
	return out, nil
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
