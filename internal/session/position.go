package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Position is a server's place in the database's history.
type Position struct {
	// System is the identifier that the cluster got when it was made. Its physical copies, such as standbys, have the same.
	System int64

	// Timeline counts the promotions that led to this server; 0 of a standby, which cannot be asked for it.
	Timeline uint32

	// LSN is the place in the write-ahead log up to which the server had written records when it was asked. A standby has received, or
	// read from an archive, the records up to there.
	LSN uint64

	// Standby says that the server is in recovery and takes no writes.
	Standby bool
}

// positionColumns can be read by every role. The timeline is the first part of a segment's name. On a standby the functions of a
// primary would fail.
const positionColumns = `
(SELECT system_identifier FROM pg_control_system()), pg_is_in_recovery(),
CASE WHEN NOT pg_is_in_recovery() THEN substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END,
CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn()
    ELSE coalesce(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0') END`

// parsePosition reads the answer to positionColumns in text format.
func parsePosition(row [][]byte) (p Position, err error) {
	if len(row) != 4 {
		return p, errors.New("the server's position is not PostgreSQL's")
	}
	if p.System, err = strconv.ParseInt(string(row[0]), 10, 64); err != nil {
		return p, fmt.Errorf("reading the system identifier: %w", err)
	}
	if p.LSN, err = ParseLSN(string(row[3])); err != nil {
		return p, err
	}
	if p.Standby = string(row[1]) == "t"; p.Standby {
		return p, nil
	}
	timeline, err := strconv.ParseUint(string(row[2]), 16, 32)
	if err != nil {
		return p, fmt.Errorf("reading the timeline: %w", err)
	}
	p.Timeline = uint32(timeline)
	return p, nil
}

// ParseLSN reads a place in the write-ahead log as PostgreSQL writes it, such as 16/B374D848.
func ParseLSN(text string) (uint64, error) {
	high, low, ok := strings.Cut(text, "/")
	h, errHigh := strconv.ParseUint(high, 16, 32)
	l, errLow := strconv.ParseUint(low, 16, 32)
	if err := errors.Join(errHigh, errLow); !ok || err != nil {
		return 0, fmt.Errorf("%q is not a place in the write-ahead log", text)
	}
	return h<<32 | l, nil
}

// FormatLSN writes a place in the write-ahead log as PostgreSQL does.
func FormatLSN(lsn uint64) string { return fmt.Sprintf("%X/%X", lsn>>32, uint32(lsn)) }

// readPosition asks a connection for the position of its server.
func readPosition(ctx context.Context, conn *pgconn.PgConn) (Position, error) {
	results, err := conn.Exec(ctx, "SELECT "+positionColumns).ReadAll()
	if err != nil {
		return Position{}, fmt.Errorf("asking a server for its position: %w", err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return Position{}, errors.New("asking a server for its position: no answer")
	}
	return parsePosition(results[0].Rows[0])
}
