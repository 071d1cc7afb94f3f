package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/seal"
)

// How a process shows that it lives. All times are the database's.
const (
	// NodeHeartbeat is how often a process writes its row.
	NodeHeartbeat = 10 * time.Second

	// NodeSilence is how long after its last heartbeat a process counts as live.
	NodeSilence = 30 * time.Second

	// nodeForgotten is how long a silent process is still listed.
	nodeForgotten = 24 * time.Hour

	// nodeDeadline bounds one heartbeat.
	nodeDeadline = 3 * time.Second
)

// NodeConfig describes a process. Pool, Name and Version are required.
type NodeConfig struct {
	Pool *pgxpool.Pool

	// Name tells people which process it is; Version is the version of its program.
	Name, Version string

	// Roles are what the process does.
	Roles []string

	// Configuration is a fingerprint of what the process was configured with.
	Configuration string

	// Keyring is where the process's sealing keys are; nil is none.
	Keyring *seal.Keyring
}

// Node is the row of one process in the table of processes. It is for one goroutine
// at a time.
type Node struct {
	cfg NodeConfig
	id  ID
}

// NewNode describes a process; it writes nothing yet.
func NewNode(cfg NodeConfig) (*Node, error) {
	var errs []error
	if cfg.Pool == nil {
		errs = append(errs, errors.New("a node needs a pool"))
	}
	if cfg.Name == "" || cfg.Version == "" {
		errs = append(errs, errors.New("a node needs a name and a version"))
	}
	if cfg.Roles == nil {
		cfg.Roles = []string{}
	}
	return &Node{cfg: cfg, id: newToken()}, errors.Join(errs...)
}

// ID is the id of the process's row; every start has another one.
func (n *Node) ID() ID { return n.id }

// The row may have been pruned while the process was cut off: it comes back with its
// next heartbeat. active_since is kept as long as the active key stays.
const writeNode = `
INSERT INTO node AS n (id, name, version, roles, configuration, key_ids, key_fingerprints, active_key, started_at, heartbeat)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now(), now())
ON CONFLICT (id) DO UPDATE SET
    key_ids = excluded.key_ids, key_fingerprints = excluded.key_fingerprints, heartbeat = now(),
    active_since = CASE WHEN n.active_key IS DISTINCT FROM excluded.active_key THEN now() ELSE n.active_since END,
    active_key = excluded.active_key`

const forgetNodes = `
DELETE FROM node WHERE heartbeat < now() - $1::bigint * interval '1 microsecond'`

// Beat writes that the process lives and which keys it holds, forgets processes that
// have been silent for a day, and returns all that are left, this one among them.
func (n *Node) Beat(ctx context.Context) ([]NodeRow, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeDeadline)
	defer cancel()
	ids, fingerprints, active := []int32{}, []string{}, (*int32)(nil)
	if ring := n.cfg.Keyring.Ring(); ring != nil {
		for _, k := range ring.Keys() {
			ids, fingerprints = append(ids, k.ID), append(fingerprints, k.Fingerprint())
		}
		id := ring.Active().ID
		active = &id
	}
	var b pgx.Batch
	b.Queue(writeNode, n.id, n.cfg.Name, n.cfg.Version, n.cfg.Roles, n.cfg.Configuration, ids, fingerprints, active)
	b.Queue(forgetNodes, nodeForgotten.Microseconds())
	var nodes []NodeRow
	b.Queue(readNodes, NodeSilence.Microseconds()).Query(func(rows pgx.Rows) (err error) {
		nodes, err = pgx.CollectRows(rows, scanNode)
		return err
	})
	if err := n.cfg.Pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("writing the heartbeat of node %s: %w", n.cfg.Name, err)
	}
	return nodes, nil
}

const removeNode = `
DELETE FROM node WHERE id = $1`

// Leave removes the process's row when it stops. A process that cannot is silent, and
// no longer counts after [NodeSilence].
func (n *Node) Leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, nodeDeadline)
	defer cancel()
	if _, err := n.cfg.Pool.Exec(ctx, removeNode, n.id); err != nil {
		return fmt.Errorf("removing node %s: %w", n.cfg.Name, err)
	}
	return nil
}
