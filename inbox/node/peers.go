package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
)

// Peers remembers which routes the other live processes work, as of the last time that
// the table of processes was read: with each heartbeat, and by [Peers.Look]. It is safe
// for concurrent use. A nil Peers knows of no other process.
type Peers struct {
	pool *pgxpool.Pool
	self inbox.ID

	mu                sync.RWMutex
	routes            map[int32]struct{}
	sameConfiguration bool // all of them have the configuration of this process
}

// Works reports whether another live process works the route.
func (p *Peers) Works(route int32) bool {
	if p == nil {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, ok := p.routes[route]
	return ok
}

// Routes are the routes that other live processes work, by id.
func (p *Peers) Routes() []int32 {
	if p == nil {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Collect(maps.Keys(p.routes))
}

// Alike reports whether every live process has the configuration of this one. It is
// false as long as that is not known, and for a nil Peers.
func (p *Peers) Alike() bool {
	if p == nil {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.sameConfiguration
}

// Look reads the table of processes now, instead of with the next heartbeat.
func (p *Peers) Look(ctx context.Context) error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	nodes, err := List(ctx, p.pool)
	if err != nil {
		return fmt.Errorf("looking for the routes of other processes: %w", err)
	}
	p.update(nodes)
	return nil
}

func (p *Peers) update(nodes []Row) {
	routes := map[int32]struct{}{}
	configurations := map[string]struct{}{}
	found := false
	for i := range nodes {
		n := &nodes[i]
		found = found || n.ID == p.self
		if !n.Live {
			continue
		}
		configurations[n.Configuration] = struct{}{}
		if n.ID == p.self {
			continue
		}
		for _, id := range n.Routes {
			routes[id] = struct{}{}
		}
	}
	p.mu.Lock()
	p.routes, p.sameConfiguration = routes, found && len(configurations) == 1
	p.mu.Unlock()
}
