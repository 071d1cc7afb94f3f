package migrations

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
)

// readCatalog returns everything that migrations create in the schema of the search path, one line
// per object, without the schema's name. It leaves out partitions, because the program creates and
// drops them.
const readCatalog = `
WITH here AS (SELECT oid, nspname FROM pg_namespace WHERE nspname = current_schema()),
relations AS (
    SELECT c.* FROM pg_class c, here WHERE c.relnamespace = here.oid AND NOT c.relispartition
        AND c.relname <> '` + versionTable + `')
SELECT regexp_replace(line, '"?\m' || here.nspname || '\M"?\.', '', 'g') FROM here, (
    SELECT format('table %s %s', c.relname, array_to_string(c.reloptions, ',')) AS line
    FROM relations c WHERE c.relkind IN ('r', 'p')
    UNION ALL
    SELECT format('column %s.%s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
        pg_get_expr(d.adbin, d.adrelid))
    FROM relations c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relkind IN ('r', 'p')
    UNION ALL
    SELECT format('index %s%s', pg_get_indexdef(i.indexrelid), CASE WHEN NOT i.indisvalid THEN ' (not valid)' END)
    FROM pg_index i JOIN relations c ON c.oid = i.indexrelid JOIN relations t ON t.oid = i.indrelid
    UNION ALL
    SELECT format('constraint %s.%s %s', c.relname, k.conname, pg_get_constraintdef(k.oid))
    FROM pg_constraint k JOIN relations c ON c.oid = k.conrelid
    UNION ALL
    SELECT format('trigger %s.%s %s', c.relname, g.tgname, pg_get_triggerdef(g.oid))
    FROM pg_trigger g JOIN relations c ON c.oid = g.tgrelid WHERE NOT g.tgisinternal
    UNION ALL
    SELECT 'sequence ' || c.relname FROM relations c WHERE c.relkind = 'S'
    UNION ALL
    SELECT format('function %s(%s) %s', p.proname, pg_get_function_identity_arguments(p.oid),
        md5(regexp_replace(p.prosrc, '"?\m' || here.nspname || '\M"?', '', 'g')))
    FROM pg_proc p, here WHERE p.pronamespace = here.oid
    UNION ALL
    SELECT format('type %s %s', y.typname, (SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = y.oid))
    FROM pg_type y, here WHERE y.typnamespace = here.oid AND y.typtype = 'e'
) lines
ORDER BY 1`

// catalog lists the objects of a schema.
type catalog []string

func readLines(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
},
) (catalog, error) {
	rows, err := db.Query(ctx, readCatalog)
	if err != nil {
		return nil, fmt.Errorf("reading the tables of the schema: %w", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the tables of the schema: %w", err)
	}
	return lines, nil
}

// versions returns the objects that the migrations create at each version in the given range.
// Version 0 is River's tables alone. It runs the migrations in a temporary schema, in a transaction
// that it rolls back.
func (r *runner) versions(ctx context.Context, from, to int) (map[int]catalog, error) {
	tx, err := r.conn.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("making a schema to compare with: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	name := pgx.Identifier{"oncegate_compare_" + strings.ToLower(rand.Text()[:10])}.Sanitize()
	if _, err := tx.Exec(ctx, "CREATE SCHEMA "+name+"; SET LOCAL search_path = "+name, pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, fmt.Errorf("making a schema to compare with, which is rolled back: %w", err)
	}
	m, err := newRiver()
	if err != nil {
		return nil, err
	}
	// PostgreSQL does not allow a transaction to use an enum value that it has added, as River's
	// migrations do, so here the type is created with the value.
	river := strings.NewReplacer("/* TEMPLATE: schema */", "", "AS ENUM(\n", "AS ENUM(\n'pending',\n")
	for _, version := range m.AllVersions() {
		if version.Version > RiverVersion {
			break
		}
		if _, err := tx.Exec(ctx, river.Replace(version.SQLUp), pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("making River's tables to compare with: %w", err)
		}
	}
	out := map[int]catalog{}
	for version := 0; version <= to; version++ {
		if version > 0 {
			if err := r.apply(ctx, tx, version); err != nil {
				return nil, fmt.Errorf("making version %d to compare with: %w", version, err)
			}
		}
		if version >= from {
			if out[version], err = readLines(ctx, tx); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// apply runs the file of a version in a transaction, even if the file normally runs outside one.
func (r *runner) apply(ctx context.Context, tx pgx.Tx, version int) error {
	names, err := fs.Glob(r.cfg.files, fmt.Sprintf("sql/%06d_*.up.sql", version))
	if err != nil || len(names) != 1 {
		return fmt.Errorf("%d files of the version, %w", len(names), err)
	}
	content, err := fs.ReadFile(r.cfg.files, names[0])
	if err != nil {
		return err
	}
	f, err := parseFile(string(content))
	if err != nil {
		return err
	}
	sql := f.sql
	if f.outside {
		sql = strings.ReplaceAll(comment.ReplaceAllString(sql, ""), "CONCURRENTLY", "")
	}
	_, err = tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}
