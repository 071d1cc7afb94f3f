package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/seal"
)

// How a process shows that it lives. All times are the database's.
const (
	// Heartbeat is how often a process writes its row.
	Heartbeat = 10 * time.Second

	// Silence is how long after its last heartbeat a process counts as live.
	Silence = 30 * time.Second

	// forgetAfter is how long a silent process is still listed.
	forgetAfter = 24 * time.Hour

	// statementTimeout bounds one heartbeat.
	statementTimeout = 3 * time.Second
)

// Config describes a process. Pool, Name and Version are required.
type Config struct {
	Pool *pgxpool.Pool

	// Name names the process for people; Version is the version of its program.
	Name, Version string

	// Roles are what the process does.
	Roles []string

	// Configuration is a fingerprint of the process's configuration.
	Configuration string

	// OpenBreakers returns the targets whose breaker is open in the process, sorted. It may be nil.
	OpenBreakers func() []string

	// Consumers returns what the process consumes from brokers. It may be nil.
	Consumers func() []Consumer

	// Keyring is where the process's sealing keys are; nil is none.
	Keyring *seal.Keyring

	// SchemaKnown and RiverKnown are the newest versions of Oncegate's and River's tables that the program
	// knows; 0 if unknown.
	SchemaKnown, RiverKnown int
}

// Node is the row of one process in the table of processes. It is safe for concurrent
// use.
type Node struct {
	cfg   Config
	id    inbox.ID
	peers *Peers

	mu          sync.Mutex // for one statement at a time, so that the newest heartbeat is stored last
	left        bool       // Leave was called: nothing is written any more
	routes      []int32
	definitions *int64
	notReloaded *string
}

// New describes a process; it writes nothing yet.
func New(cfg Config) (*Node, error) {
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
	n := &Node{cfg: cfg, id: inbox.NewToken(), routes: []int32{}}
	n.peers = &Peers{pool: cfg.Pool, self: n.id}
	return n, errors.Join(errs...)
}

// ID is the id of the process's row; every start has another one.
func (n *Node) ID() inbox.ID { return n.id }

// Peers are the other processes, as the heartbeats of this one see them.
func (n *Node) Peers() *Peers { return n.peers }

// Work announces to the other processes that this one carries out the effects of these routes and of no
// others, or of none at all. They hand such effects over to it as soon as they have read that. A process
// announces its routes when its workers run, and withdraws them before they stop.
func (n *Node) Work(ctx context.Context, routes []int32) error {
	n.mu.Lock()
	n.routes = append([]int32{}, routes...)
	n.mu.Unlock()
	_, err := n.Beat(ctx)
	return err
}

// Serve announces that the process serves the sources of the database as of a revision.
func (n *Node) Serve(ctx context.Context, revision int64) error {
	n.mu.Lock()
	n.definitions = &revision
	n.mu.Unlock()
	_, err := n.Beat(ctx)
	return err
}

// KeepsConfiguration announces that a reload has failed, so that the process keeps its configuration, and why. The reload that
// succeeds starts another Node.
func (n *Node) KeepsConfiguration(ctx context.Context, why string) error {
	n.mu.Lock()
	n.notReloaded = &why
	n.mu.Unlock()
	_, err := n.Beat(ctx)
	return err
}

// The row may have been pruned while the process was cut off: it comes back with its
// next heartbeat. active_since is kept as long as the active key stays.
const writeNode = `
INSERT INTO node AS n (id, name, version, roles, configuration, key_ids, key_fingerprints, active_key, route_ids, schema_known, river_known, definitions, open_breakers,
    not_reloaded, consumers, not_reloaded_at, started_at, heartbeat)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, nullif($10, 0), nullif($11, 0), $12, $13, $14, $15::text::jsonb, CASE WHEN $14::text IS NOT NULL THEN now() END, now(), now())
ON CONFLICT (id) DO UPDATE SET
    key_ids = excluded.key_ids, key_fingerprints = excluded.key_fingerprints, route_ids = excluded.route_ids, definitions = excluded.definitions, heartbeat = now(),
    open_breakers = excluded.open_breakers, consumers = excluded.consumers, not_reloaded = excluded.not_reloaded, not_reloaded_at = coalesce(n.not_reloaded_at, excluded.not_reloaded_at),
    active_since = CASE WHEN n.active_key IS DISTINCT FROM excluded.active_key THEN now() ELSE n.active_since END,
    active_key = excluded.active_key`

const forgetNodes = `
DELETE FROM node WHERE heartbeat < now() - $1::bigint * interval '1 microsecond'`

// Beat writes that the process lives, its keys and the routes that it works, deletes processes that have
// been silent for a day, and returns all others, this one included.
//
// The end of ctx does not cut it off, because the server could still execute the statement after the row was removed. After
// [Node.Leave], Beat writes nothing and returns no rows, because no process would remove the row again.
func (n *Node) Beat(ctx context.Context) ([]Row, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
	defer cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left {
		return nil, nil
	}
	ids, fingerprints, active := []int32{}, []string{}, (*int32)(nil)
	if ring := n.cfg.Keyring.Ring(); ring != nil {
		for _, k := range ring.Keys() {
			ids, fingerprints = append(ids, k.ID), append(fingerprints, k.Fingerprint())
		}
		id := ring.Active().ID
		active = &id
	}
	open := []string{}
	if n.cfg.OpenBreakers != nil {
		open = append(open, n.cfg.OpenBreakers()...)
	}
	consumers, err := n.consumers()
	if err != nil {
		return nil, err
	}
	var b pgx.Batch
	b.Queue(writeNode, n.id, n.cfg.Name, n.cfg.Version, n.cfg.Roles, n.cfg.Configuration, ids, fingerprints, active, n.routes, n.cfg.SchemaKnown, n.cfg.RiverKnown, n.definitions, open, n.notReloaded, consumers)
	b.Queue(forgetNodes, forgetAfter.Microseconds())
	var nodes []Row
	b.Queue(readNodes, Silence.Microseconds()).Query(func(rows pgx.Rows) (err error) {
		nodes, err = pgx.CollectRows(rows, scanNode)
		return err
	})
	if err := n.cfg.Pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("writing the heartbeat of node %s: %w", n.cfg.Name, err)
	}
	n.peers.update(nodes)
	return nodes, nil
}

// consumers returns the JSON of what the process consumes.
func (n *Node) consumers() (string, error) {
	out := []Consumer{}
	if n.cfg.Consumers != nil {
		out = append(out, n.cfg.Consumers()...)
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("writing the consumers of node %s: %w", n.cfg.Name, err)
	}
	return string(text), nil
}

const removeNode = `
DELETE FROM node WHERE id = $1`

// Leave removes the process's row when it stops. A process that cannot do so is silent, and no longer
// counts after [Silence].
func (n *Node) Leave(ctx context.Context) error {
	n.mu.Lock() // a heartbeat under way may take all of its time
	defer n.mu.Unlock()
	n.left = true
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if _, err := n.cfg.Pool.Exec(ctx, removeNode, n.id); err != nil {
		return fmt.Errorf("removing node %s: %w", n.cfg.Name, err)
	}
	return nil
}
