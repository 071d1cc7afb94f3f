package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
)

// columns of a table, without those that the database numbers itself.
const readColumns = `
SELECT attname FROM pg_attribute
WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = ''
ORDER BY attnum`

// transfer describes rows that are copied from one database to the other. Both have the same columns, because they have the same version of
// the schema.
type transfer struct {
	table string

	// change has the expressions of the columns that differ.
	change map[string]string

	// where selects the rows, and may end with an order and a limit.
	where string

	// conflict says what becomes of a row that the other database has.
	conflict string
}

// doNothing keeps the row that the other database has.
const doNothing = ` ON CONFLICT DO NOTHING`

// copyRows copies rows in the transaction to. The values pass through memory in PostgreSQL's binary format, so that none is converted. It
// returns how many rows were read.
func copyRows(ctx context.Context, from querier, to pgx.Tx, t transfer) (int64, error) {
	found, err := to.Query(ctx, readColumns, t.table)
	if err != nil {
		return 0, err
	}
	columns, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return 0, err
	}
	names, read := strings.Join(columns, ", "), make([]string, len(columns))
	for i, column := range columns {
		read[i] = "t." + column
		if changed, ok := t.change[column]; ok {
			read[i] = changed
		}
	}
	var rows bytes.Buffer
	tag, err := from.PgConn().CopyTo(ctx, &rows, "COPY (SELECT "+strings.Join(read, ", ")+" FROM "+t.table+" t "+t.where+") TO STDOUT (FORMAT binary)")
	if err != nil || tag.RowsAffected() == 0 {
		return 0, wrap(err, "reading", t.table)
	}
	staging := "moving_" + t.table
	if _, err := to.Exec(ctx, "CREATE TEMP TABLE "+staging+" ON COMMIT DROP AS SELECT "+names+" FROM "+t.table+" WITH NO DATA"); err != nil {
		return 0, wrap(err, "writing", t.table)
	}
	if _, err := to.Conn().PgConn().CopyFrom(ctx, &rows, "COPY "+staging+" FROM STDIN (FORMAT binary)"); err != nil {
		return 0, wrap(err, "writing", t.table)
	}
	if _, err := to.Exec(ctx, "INSERT INTO "+t.table+" ("+names+") SELECT "+names+" FROM "+staging+t.conflict); err != nil {
		return 0, wrap(err, "writing", t.table)
	}
	_, err = to.Exec(ctx, "DROP TABLE "+staging)
	return tag.RowsAffected(), wrap(err, "writing", t.table)
}

// batch is how many rows one transaction copies.
const batch = 5000

// copyInBatches copies the rows in which a column is greater than after, in the order of the column. It commits each batch and returns the last
// value of the column. An interrupted copy may begin again, because the other database keeps the rows that it has.
func (m *Move) copyInBatches(ctx context.Context, t transfer, column, kind, after string) (last string, err error) {
	condition := "t." + column + " > "
	if t.where != "" {
		condition = t.where + " AND " + condition
	}
	end := "SELECT b.place::text FROM (SELECT t." + column + " AS place FROM " + t.table + " t WHERE " + condition + "$1::text::" + kind +
		" ORDER BY t." + column + " LIMIT $2) b ORDER BY b.place DESC LIMIT 1"
	last = after
	for {
		var next string
		err := m.From.Pool.QueryRow(ctx, end, last, batch).Scan(&next)
		if errors.Is(err, pgx.ErrNoRows) {
			return last, nil
		}
		if err != nil {
			return last, wrap(err, "reading", t.table)
		}
		one := t
		one.where = "WHERE " + condition + quoted(last) + "::" + kind + " AND t." + column + " <= " + quoted(next) + "::" + kind
		err = m.fromConn(ctx, func(from *pgx.Conn) error {
			return pgx.BeginFunc(ctx, m.To.Pool, func(tx pgx.Tx) error {
				_, err := copyRows(ctx, from, tx, one)
				return err
			})
		})
		if err != nil {
			return last, err
		}
		last = next
	}
}

// querier is the connection of the database from which rows are copied.
type querier interface{ PgConn() *pgconn.PgConn }

func wrap(err error, doing, table string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s the table %s: %w", doing, table, err)
}

// mapped is an expression that maps the numbers of a column. A number that is not in the map becomes NULL.
func mapped[N int32 | int64](column string, numbers map[N]N, kind string) string {
	if len(numbers) == 0 {
		return "NULL::" + kind
	}
	var out strings.Builder
	out.WriteString("CASE " + column)
	for from, to := range numbers {
		fmt.Fprintf(&out, " WHEN %d THEN %d", from, to)
	}
	out.WriteString(" END::" + kind)
	return out.String()
}

// list is the numbers as SQL.
func list[N int32 | int64](numbers []N) string {
	var out []string
	for _, n := range numbers {
		out = append(out, strconv.FormatInt(int64(n), 10))
	}
	return "'{" + strings.Join(out, ",") + "}'"
}

// quoted is a text as SQL, under standard_conforming_strings.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// uuids is the ids as SQL.
func uuids(ids []inbox.ID) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return "'{" + strings.Join(out, ",") + "}'::uuid[]"
}
