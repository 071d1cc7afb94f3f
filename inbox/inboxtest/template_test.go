package inboxtest_test

import (
	"bytes"
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/migrations"
)

// All that PostgreSQL knows of a schema and that decides how it behaves: every field of its
// catalogues, without oids, the places of files, statistics what follows from columns that were
// dropped, and whether a table once had a trigger.
const wholeCatalogue = `
WITH here AS (SELECT oid FROM pg_namespace WHERE nspname = $1),
relations AS (SELECT c.* FROM pg_class c, here WHERE c.relnamespace = here.oid),
columns AS (
    SELECT a.*, c.relname, c.relkind, row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum) AS place
    FROM pg_attribute a JOIN relations c ON c.oid = a.attrelid WHERE a.attnum > 0 AND NOT a.attisdropped)
SELECT line FROM (
    SELECT format('relation %s owner %s access %s toast %s %s', c.relname, c.relowner::regrole, m.amname, t.reloptions, to_jsonb(c) - ARRAY['oid', 'relnamespace',
        'reltype', 'reloftype', 'relowner', 'relam', 'relfilenode', 'reltoastrelid', 'relpages', 'reltuples', 'relallvisible', 'relallfrozen', 'relfrozenxid',
        'relminmxid', 'relnatts', 'relpartbound', 'relhastriggers']) AS line
    FROM relations c LEFT JOIN pg_am m ON m.oid = c.relam LEFT JOIN pg_class t ON t.oid = c.reltoastrelid
    UNION ALL
    SELECT format('partition %s of %s %s by %s', c.relname, i.inhparent::regclass, pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(c.oid))
    FROM relations c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    UNION ALL
    SELECT format('column %s %s %s %s default %s options %s %s', a.relname, a.place, a.atttypid::regtype, a.attcollation::regcollation, pg_get_expr(d.adbin, d.adrelid),
        ARRAY(SELECT o FROM unnest(a.attoptions) o WHERE o NOT LIKE 'pg\_attver=%'), -- PostgreSQL's own, which 15.20 writes and 15.18 does not
        to_jsonb(a) - ARRAY['attrelid', 'atttypid', 'attnum', 'attcollation', 'attcacheoff', 'attmissingval', 'atthasmissing', 'attoptions', 'place'])
    FROM columns a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    UNION ALL
    SELECT format('index %s on %s %s %s', i.indexrelid::regclass, i.indrelid::regclass, pg_get_indexdef(i.indexrelid), to_jsonb(i)
        - ARRAY['indexrelid', 'indrelid', 'indkey', 'indcollation', 'indclass', 'indexprs', 'indpred', 'indcheckxmin'])
    FROM pg_index i JOIN relations c ON c.oid = i.indexrelid
    UNION ALL
    SELECT format('index %s is number %s of its table', i.indexrelid::regclass, row_number() OVER (PARTITION BY i.indrelid ORDER BY i.indexrelid))
    FROM pg_index i JOIN relations c ON c.oid = i.indexrelid
    UNION ALL
    SELECT format('constraint %s on %s %s of %s index %s %s', k.conname, c.relname, pg_get_constraintdef(k.oid), k.conparentid <> 0, k.conindid::regclass, to_jsonb(k)
        - ARRAY['oid', 'connamespace', 'conrelid', 'contypid', 'conindid', 'conparentid', 'confrelid', 'conkey', 'confkey', 'conpfeqop', 'conppeqop', 'conffeqop', 'conexclop', 'conbin'])
    FROM pg_constraint k JOIN relations c ON c.oid = k.conrelid
    UNION ALL
    SELECT format('trigger %s on %s %s %s', CASE WHEN g.tgisinternal THEN '' ELSE g.tgname END, c.relname, pg_get_triggerdef(g.oid), to_jsonb(g)
        - ARRAY['oid', 'tgrelid', 'tgparentid', 'tgname', 'tgfoid', 'tgconstrrelid', 'tgconstrindid', 'tgconstraint', 'tgattr', 'tgqual'])
    FROM pg_trigger g JOIN relations c ON c.oid = g.tgrelid WHERE NOT g.tgisinternal
    UNION ALL
    SELECT format('function %s owner %s %s %s', p.oid::regprocedure, p.proowner::regrole, pg_get_functiondef(p.oid), to_jsonb(p)
        - ARRAY['oid', 'pronamespace', 'proowner', 'prorettype', 'proargtypes', 'proallargtypes'])
    FROM pg_proc p, here WHERE p.pronamespace = here.oid
    UNION ALL
    SELECT format('type %s owner %s %s %s', y.typname, y.typowner::regrole, (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = y.oid),
        to_jsonb(y) - ARRAY['oid', 'typnamespace', 'typowner', 'typrelid', 'typelem', 'typarray', 'typbasetype'])
    FROM pg_type y, here WHERE y.typnamespace = here.oid
    UNION ALL
    SELECT format('sequence %s %s owned by %s', s.seqrelid::regclass, to_jsonb(s) - ARRAY['seqrelid'],
        (SELECT format('%s.%s %s', d.refobjid::regclass, a.attname, d.deptype) FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
         WHERE d.objid = s.seqrelid AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')))
    FROM pg_sequence s JOIN relations c ON c.oid = s.seqrelid
    UNION ALL
    SELECT format('comment on %s %s: %s', d.objsubid, pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description)
    FROM pg_description d JOIN (SELECT oid FROM here UNION SELECT oid FROM relations UNION SELECT k.oid FROM pg_constraint k, here WHERE k.connamespace = here.oid
        UNION SELECT p.oid FROM pg_proc p, here WHERE p.pronamespace = here.oid UNION SELECT g.oid FROM pg_trigger g JOIN relations c ON c.oid = g.tgrelid) o
        ON o.oid = d.objoid
    UNION ALL
    SELECT format('schema owner %s privileges %s', n.nspowner::regrole, n.nspacl) FROM pg_namespace n JOIN here USING (oid)
    UNION ALL
    SELECT format('rule %s on %s', r.rulename, r.ev_class::regclass) FROM pg_rewrite r JOIN relations c ON c.oid = r.ev_class
    UNION ALL
    SELECT format('policy %s on %s', r.polname, r.polrelid::regclass) FROM pg_policy r JOIN relations c ON c.oid = r.polrelid
    UNION ALL
    SELECT format('statistics %s', x.stxname) FROM pg_statistic_ext x, here WHERE x.stxnamespace = here.oid
) everything ORDER BY line`

// everything is the whole catalogue of a schema and all of its rows, without its name and without
// the instants at which it was made.
func everything(t *testing.T, conn *pgx.Conn, schema string) []string {
	t.Helper()
	read := func(query string, args ...any) []string {
		rows, err := conn.Query(t.Context(), query, args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	lines := read(wholeCatalogue, schema)
	for _, table := range read(`SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'S') ORDER BY 1`, schema) {
		for _, row := range read(`SELECT (to_jsonb(t) - ARRAY['at', 'created_at', 'log_cnt'])::text FROM (SELECT * FROM ` + table + `) t ORDER BY 1`) {
			lines = append(lines, "row of "+table+" "+row)
		}
	}
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, schema, "SCHEMA")
	}
	return lines
}

func without(lines, others []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(others, line) })
}

// differences are the lines of each schema that the other one has not.
func differences(a, b []string) string {
	return strings.Join(without(a, b), "\n") + "\n--- against\n" + strings.Join(without(b, a), "\n")
}

func TestTheQuickSchemaIsTheMigratedOne(t *testing.T) {
	t.Parallel()

	url, migrated := inboxtest.EmptySchema(t)
	if err := migrations.Up(t.Context(), url, migrated); err != nil {
		t.Fatal(err)
	}
	template, err := inboxtest.ReadTemplate(t.Context(), url, migrated)
	if err != nil {
		t.Fatal(err)
	}
	_, quick := inboxtest.EmptySchema(t)
	if err := template.Make(t.Context(), url, quick); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.Exec(t.Context(), "SET search_path = ''"); err != nil {
		t.Fatal(err)
	}
	want, got := everything(t, conn, migrated), everything(t, conn, quick)
	if !slices.Equal(got, want) {
		t.Errorf("the quick schema is not the migrated one:\n%s", differences(got, want))
	}
	if len(want) < 500 {
		t.Errorf("%d lines were compared, which cannot be all of the schema", len(want))
	}
	if err := migrations.Up(t.Context(), url, quick); err != nil {
		t.Errorf("migrating the quick schema: %v", err)
	}
	if again := everything(t, conn, quick); !slices.Equal(again, want) {
		t.Errorf("a migration changed the quick schema:\n%s", differences(again, want))
	}

	// What PostgreSQL's own tool writes of both is the same.
	dump := func(schema string) string {
		out, err := exec.CommandContext(t.Context(), "pg_dump", "--schema", schema, url).Output()
		if err != nil {
			t.Skipf("pg_dump did not write the schema, so that only the catalogues were compared (they are equal unless this test has failed): %v", err)
		}
		out = regexp.MustCompile(`(?m)^\\(un)?restrict .*$|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*`).ReplaceAll(out, nil)
		return string(bytes.ReplaceAll(out, []byte(schema), []byte("SCHEMA")))
	}
	if _, err := exec.LookPath("pg_dump"); err != nil {
		t.Log("there is no pg_dump on PATH: only the catalogues were compared")
		return
	}
	if got, want := dump(quick), dump(migrated); got != want {
		t.Errorf("pg_dump writes the quick schema differently:\n%s", differences(strings.Split(got, "\n"), strings.Split(want, "\n")))
	}
}

// The comparison sees every kind of thing that a template may forget.
func TestAForgetfulTemplateIsNoticed(t *testing.T) {
	t.Parallel()

	url, schema := inboxtest.Schema(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	read := func() []string {
		if _, err := conn.Exec(t.Context(), "SET LOCAL search_path = ''"); err != nil {
			t.Fatal(err)
		}
		return everything(t, conn, schema)
	}
	change := func(statement string) []string {
		if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "SET LOCAL search_path = "+schema); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		lines := read()
		if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	whole := change("SELECT 1")
	for what, statement := range map[string]string{
		"column":      "ALTER TABLE effect DROP COLUMN unknown_lease",
		"default":     "ALTER TABLE effect ALTER COLUMN version DROP DEFAULT",
		"null":        "ALTER TABLE audit ALTER COLUMN actor DROP NOT NULL",
		"compression": "ALTER TABLE inbox_body_kept ALTER COLUMN body SET COMPRESSION pglz",
		"storage":     "ALTER TABLE inbox_body_kept ALTER COLUMN body SET STORAGE external",
		"identity":    "ALTER TABLE stream ALTER COLUMN id SET GENERATED BY DEFAULT",
		"index":       "DROP INDEX effect_due_idx",
		"unique":      "ALTER TABLE routing DROP CONSTRAINT routing_digest_key",
		"constraint":  "ALTER TABLE effect DROP CONSTRAINT effect_lease",
		"validity": "ALTER TABLE effect DROP CONSTRAINT effect_duplicate_of, " +
			"ADD CONSTRAINT effect_duplicate_of CHECK ((state = 'duplicate') = (duplicate_of IS NOT NULL)) NOT VALID",
		"foreign key":     "ALTER TABLE route DROP CONSTRAINT route_source_fkey",
		"trigger":         "DROP TRIGGER outbox_place ON outbox",
		"stopped trigger": "ALTER TABLE outbox DISABLE TRIGGER outbox_place",
		"function":        "ALTER FUNCTION outbox_place() SECURITY INVOKER",
		"privilege":       "GRANT EXECUTE ON FUNCTION outbox_place() TO PUBLIC",
		"table privilege": "GRANT SELECT ON audit TO PUBLIC",
		"partition":       "ALTER TABLE inbox_body DETACH PARTITION inbox_body_kept",
		"fillfactor":      "ALTER TABLE effect RESET (fillfactor)",
		"logging":         "ALTER TABLE audit SET UNLOGGED",
		"type":            "ALTER TYPE river_job_state ADD VALUE 'waiting'",
		"sequence":        "ALTER SEQUENCE outbox_position CACHE 10",
		"a used sequence": "SELECT nextval('outbox_position')",
		"comment":         "COMMENT ON TABLE effect IS 'a comment'",
		"column comment":  "COMMENT ON COLUMN effect.id IS 'a comment'",
		"statistics":      "CREATE STATISTICS planned (dependencies) ON state, route_id FROM effect",
		"version":         "DELETE FROM schema_version WHERE tables = 'river'",
		"a row":           "INSERT INTO prune_walk (name, position, began_at) VALUES ('x', '', now())",
		"its migration":   "UPDATE oncegate_migration SET version = version - 1",
		"river's version": "DELETE FROM river_migration WHERE version = 3",
	} {
		if slices.Equal(change(statement), whole) {
			t.Errorf("the comparison does not notice that a %s differs (%s)", what, statement)
		}
	}
}
