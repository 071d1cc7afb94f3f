package migrations

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// nodeSilence is how long after its last heartbeat a process counts as live. Package inbox writes a
// heartbeat every ten seconds.
const nodeSilence = 30 * time.Second

// Node is a process that uses the schema, with the schema versions that it knows.
type Node struct {
	Name    string `json:"name"`
	Version string `json:"version"` // of the process's program

	// Known and RiverKnown are the newest schema versions that the program knows, or 0 if it does
	// not record them.
	Known      int `json:"knows"`
	RiverKnown int `json:"knows_river"`

	Live bool `json:"live"`
}

// Fits reports whether the process may run on the schema. A process that does not record what it
// knows never fits.
func (n Node) Fits(s Status) bool {
	s.Known, s.RiverKnown = n.Known, n.RiverKnown
	return n.Known > 0 && s.Check() == nil
}

// The table node may be missing.
const (
	nodesExist = `SELECT to_regclass('node') IS NOT NULL`

	readNodes = `
SELECT n.name, n.version, coalesce(n.schema_known, 0), coalesce(n.river_known, 0),
    n.heartbeat > now() - $1::bigint * interval '1 microsecond'
FROM node n
ORDER BY n.name, n.started_at, n.id`
)

// Nodes returns the processes that use the database, including those that are no longer live.
func Nodes(ctx context.Context, pool *pgxpool.Pool) ([]Node, error) {
	var exist bool
	if err := pool.QueryRow(ctx, nodesExist).Scan(&exist); err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	if !exist {
		return nil, nil
	}
	rows, err := pool.Query(ctx, readNodes, nodeSilence.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	nodes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Node])
	if err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	return nodes, nil
}
