package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Row is a process as it last described itself.
type Row struct {
	ID            inbox.ID `json:"id"`
	Name          string   `json:"name"`
	Version       string   `json:"version"`
	Roles         []string `json:"roles"`
	Configuration string   `json:"configuration"`

	// Definitions is the revision of the sources of the database that the process serves, nil if it serves none. Two
	// processes that are at different revisions have different configurations for a moment.
	Definitions *int64 `json:"definitions,omitempty"`

	Keys []Key `json:"keys"`

	// ActiveKey is the key with which the process seals; 0 if it seals nothing.
	// ActiveSince is when that changed; nil if it has not since the start.
	ActiveKey   int32      `json:"active_key"`
	ActiveSince *time.Time `json:"active_since,omitempty"`

	// OpenBreakers are the targets whose breaker was open in the process at its last heartbeat, so that it made no attempts at them.
	OpenBreakers []string `json:"open_breakers"`

	// Consumers are what the process consumed from brokers at its last heartbeat.
	Consumers []Consumer `json:"consumers"`

	// Routes are the ids of the routes whose effects the process carries out. It is nil for a
	// process that has not announced any.
	Routes []int32 `json:"routes" nullable:"true"`

	// NotReloaded is why the last reload of the process failed: it runs the configuration before. Empty if it did not fail.
	NotReloaded string `json:"not_reloaded,omitempty"`

	StartedAt time.Time `json:"started_at"`
	Heartbeat time.Time `json:"heartbeat"`

	// Silent is how long ago, by the database's clock, the process was last heard of.
	Silent time.Duration `json:"-"`

	// Live says that this is not longer ago than [Silence].
	Live bool `json:"live"`
}

// Consumer is a source that a process consumes from a broker.
type Consumer struct {
	// Source is the id of the source's row.
	Source int32 `json:"source"`

	// Group is the name under which the broker remembers what was consumed.
	Group string `json:"group"`

	// Lag is how many messages the broker has that are not acknowledged. It is absent while the broker has not said so.
	Lag *int64 `json:"lag,omitempty"`

	// Reached is when the broker last answered. It is absent if it has not answered yet.
	Reached *time.Time `json:"reached,omitempty"`

	// Error is why messages cannot be consumed, and Failing since when. They are absent if they can.
	Error   string     `json:"error,omitempty"`
	Failing *time.Time `json:"failing,omitempty"`
}

// Key is a sealing key of a process.
type Key struct {
	ID          int32  `json:"id"`
	Fingerprint string `json:"fingerprint"`
}

// Holds reports whether the process has the key with the same id and the same secret.
func (n *Row) Holds(key seal.Key) bool {
	return slices.Contains(n.Keys, Key{ID: key.ID, Fingerprint: key.Fingerprint()})
}

// String names the process for a person.
func (n *Row) String() string { return fmt.Sprintf("%s (version %s)", n.Name, n.Version) }

const readNodes = `
SELECT id, name, version, roles, configuration, definitions, key_ids, key_fingerprints, coalesce(active_key, 0), active_since, route_ids, open_breakers, consumers, coalesce(not_reloaded, ''), started_at, heartbeat,
    (extract(epoch FROM now() - heartbeat) * 1000000)::bigint,
    heartbeat > now() - $1::bigint * interval '1 microsecond'
FROM node
ORDER BY name, started_at, id`

// List are the processes that have a row, silent ones among them, by name.
func List(ctx context.Context, pool *pgxpool.Pool) ([]Row, error) {
	rows, err := pool.Query(ctx, readNodes, Silence.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	nodes, err := pgx.CollectRows(rows, scanNode)
	if err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	return nodes, nil
}

func scanNode(row pgx.CollectableRow) (n Row, err error) {
	var ids []int32
	var fingerprints []string
	var silent int64
	err = row.Scan(&n.ID, &n.Name, &n.Version, &n.Roles, &n.Configuration, &n.Definitions, &ids, &fingerprints, &n.ActiveKey, &n.ActiveSince, &n.Routes, &n.OpenBreakers, &n.Consumers, &n.NotReloaded, &n.StartedAt,
		&n.Heartbeat, &silent, &n.Live)
	n.Keys = make([]Key, len(ids))
	for i := range n.Keys {
		n.Keys[i] = Key{ID: ids[i], Fingerprint: fingerprints[i]}
	}
	n.Silent = time.Duration(silent) * time.Microsecond
	return n, err
}

// Lacking returns the live processes that do not have the key and could not read content sealed with it.
func Lacking(nodes []Row, key seal.Key) (out []Row) {
	for _, n := range nodes {
		if n.Live && !n.Holds(key) {
			out = append(out, n)
		}
	}
	return out
}

// sealingDelay is how long a value that a process has sealed with a key may still be on its way to the database
// after the process has changed to another key.
const sealingDelay = time.Minute

// Sealing returns the processes that seal with the key, or may have a moment ago. A removed key is lost forever, so
// a process that went silent without a stop counts for ten minutes.
func Sealing(nodes []Row, key int32) (out []Row) {
	for _, n := range nodes {
		if n.Silent > inbox.SealingReturns {
			continue
		}
		changed := n.ActiveSince != nil && n.Heartbeat.Add(n.Silent).Sub(*n.ActiveSince) < sealingDelay
		held := slices.ContainsFunc(n.Keys, func(k Key) bool { return k.ID == key })
		if n.ActiveKey == key || changed && held {
			out = append(out, n)
		}
	}
	return out
}
