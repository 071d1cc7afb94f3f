package migrations

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Loss is a table or column that disappears when a migration is reverted.
type Loss struct {
	Table  string `json:"table"`
	Column string `json:"column,omitempty"` // empty for a whole table

	// Rows is how many rows of the table are lost, or have a value in the lost column. It is
	// counted up to [MostCounted].
	Rows int64 `json:"rows"`
}

// MostCounted is the number at which counting the rows of a [Loss] stops.
const MostCounted = 100_000

func (l Loss) String() string {
	rows := fmt.Sprint(l.Rows)
	if l.Rows >= MostCounted {
		rows += " or more"
	}
	if l.Column == "" {
		return fmt.Sprintf("table %s (%s rows)", l.Table, rows)
	}
	return fmt.Sprintf("column %s.%s (values in %s rows)", l.Table, l.Column, rows)
}

// Losses returns the tables and columns with data that [Migrator.DownTo] would drop. It changes
// nothing.
func (m *Migrator) Losses(ctx context.Context, version int) ([]Loss, error) {
	var out []Loss
	err := m.locked(ctx, func(r *runner) error {
		status, err := r.status(ctx)
		if err != nil {
			return err
		}
		if err := status.Target(version); err != nil {
			return err
		}
		versions, err := r.versions(ctx, version, status.Current)
		if err != nil {
			return err
		}
		out, err = r.losses(ctx, versions[status.Current], versions[version])
		return err
	})
	return out, err
}

func (r *runner) losses(ctx context.Context, now, then catalog) (out []Loss, err error) {
	tables, columns := named(then)
	hasTables, hasColumns := named(now)
	for _, table := range hasTables {
		if !slices.Contains(tables, table) {
			out = append(out, Loss{Table: table})
		}
	}
	for _, column := range hasColumns {
		table, name, _ := strings.Cut(column, ".")
		if slices.Contains(tables, table) && !slices.Contains(columns, column) {
			out = append(out, Loss{Table: table, Column: name})
		}
	}
	kept := out[:0]
	for _, loss := range out {
		if loss.Table == "schema_version" {
			continue // the next "migrate up" writes it again
		}
		where := ""
		if loss.Column != "" {
			where = " WHERE " + pgx.Identifier{loss.Column}.Sanitize() + " IS NOT NULL"
		}
		sql := "SELECT count(*) FROM (SELECT FROM " + pgx.Identifier{loss.Table}.Sanitize() + where + " LIMIT $1) AS counted"
		if err := r.conn.QueryRow(ctx, sql, MostCounted).Scan(&loss.Rows); err != nil {
			return nil, fmt.Errorf("counting what table %s would lose: %w", loss.Table, err)
		}
		if loss.Rows > 0 {
			kept = append(kept, loss)
		}
	}
	return kept, nil
}

func named(c catalog) (tables, columns []string) {
	for _, line := range c {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 2:
		case fields[0] == "table":
			tables = append(tables, fields[1])
		case fields[0] == "column":
			columns = append(columns, fields[1])
		}
	}
	return tables, columns
}
