package migrations

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// nodeSilence is how long after its last heartbeat a process counts as live; package
// inbox writes one every ten seconds.
const nodeSilence = 30 * time.Second

// Node is a process that serves the database, as far as its schema is concerned.
type Node struct {
	Name    string `json:"name"`
	Version string `json:"version"` // of its program

	// Known and RiverKnown are the newest versions that its program knows; 0 if it does
	// not say.
	Known      int `json:"knows"`
	RiverKnown int `json:"knows_river"`

	Live bool `json:"live"`
}

// Fits reports whether the process may run on the schema. One that does not say what it
// knows does not know a version that programs say it of.
func (n Node) Fits(s Status) bool {
	s.Known, s.RiverKnown = n.Known, n.RiverKnown
	return n.Known > 0 && s.Check() == nil
}

// The table of processes may be that of any version, or missing.
const (
	nodesExist = `SELECT to_regclass('node') IS NOT NULL`

	readNodes = `
SELECT n.name, n.version, coalesce((to_jsonb(n) ->> 'schema_known')::int, 0), coalesce((to_jsonb(n) ->> 'river_known')::int, 0),
    n.heartbeat > now() - $1::bigint * interval '1 microsecond'
FROM node n
ORDER BY n.name, n.started_at, n.id`
)

// Nodes are the processes that serve the database, silent ones among them. Programs
// before version 15 are not listed.
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
