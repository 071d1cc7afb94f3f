package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrOtherDatabase says that lists would be read from another database than the one that events are recorded in.
var ErrOtherDatabase = errors.New("database.list_url leads to another database than database.url: give both the same host and database")

// GrantError says which rights the role that reads the lists lacks.
type GrantError struct {
	// Role and Schema are written as in a statement.
	Role, Schema string

	// Tables are those that the role may not read. There are none if it may not use the schema.
	Tables []string
}

// Error is one line, with the statement that grants the rights.
func (e *GrantError) Error() string {
	lacks, grant := "may not read "+strings.Join(e.Tables, ", "), "SELECT ON ALL TABLES IN SCHEMA "
	if len(e.Tables) == 0 {
		lacks, grant = "may not use the schema "+e.Schema, "USAGE ON SCHEMA "
	}
	return fmt.Sprintf("%s, the role of database.list_url, %s: run GRANT %s%s TO %s", e.Role, lacks, grant, e.Schema, e.Role)
}

// A role that may not use the schema sees none of its tables. A partition is read through its table.
const readGrants = `
SELECT quote_ident(current_user), current_setting('search_path'), current_schema() IS NOT NULL,
    ARRAY(SELECT c.relname::text FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
            AND NOT has_table_privilege(c.oid, 'SELECT')
        ORDER BY c.relname)`

// Another server has another identifier, and another database or schema of a server has another number. Only a copy of the
// server's files, such as a standby, has the same ones. A role sees them without any right.
const readIdentity = `
SELECT (SELECT system_identifier FROM pg_control_system()), (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
    coalesce((SELECT oid::bigint FROM pg_namespace WHERE nspname = current_setting('search_path')), 0)`

type identity struct{ system, database, schema int64 }

func identify(ctx context.Context, pool *pgxpool.Pool) (identity, error) {
	var id identity
	if err := pool.QueryRow(ctx, readIdentity).Scan(&id.system, &id.database, &id.schema); err != nil {
		return id, fmt.Errorf("asking which database this is: %w", err)
	}
	return id, nil
}

// CheckListPool checks that lists, a pool with a separate role, reads the tables that primary writes. It returns
// [ErrOtherDatabase] if they are other tables, a [GrantError] if the role may not read them, and any other error if one of
// the pools cannot be asked.
func CheckListPool(ctx context.Context, primary, lists *pgxpool.Pool) error {
	read, err := identify(ctx, lists)
	if errors.Is(err, ErrOtherSystem) {
		return ErrOtherDatabase
	}
	if err != nil {
		return fmt.Errorf("database.list_url: %w", err)
	}
	if written, err := identify(ctx, primary); err != nil {
		return err
	} else if read != written {
		return ErrOtherDatabase
	}
	var lacks GrantError
	var uses bool
	if err := lists.QueryRow(ctx, readGrants).Scan(&lacks.Role, &lacks.Schema, &uses, &lacks.Tables); err != nil {
		return fmt.Errorf("asking for the rights of the role of database.list_url: %w", err)
	}
	if !uses || len(lacks.Tables) > 0 {
		return &lacks
	}
	return nil
}
