package inbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Peers remembers which routes the other live processes work, as of the last time that
// the table of processes was read: with each heartbeat, and by [Peers.Look]. It is safe
// for concurrent use. A nil Peers knows of no other process.
type Peers struct {
	pool *pgxpool.Pool
	self ID

	mu     sync.RWMutex
	routes map[int32]struct{}
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

// Look reads the table of processes now, instead of with the next heartbeat.
func (p *Peers) Look(ctx context.Context) error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeDeadline)
	defer cancel()
	nodes, err := Nodes(ctx, p.pool)
	if err != nil {
		return fmt.Errorf("looking for the routes of other processes: %w", err)
	}
	p.saw(nodes)
	return nil
}

func (p *Peers) saw(nodes []NodeRow) {
	routes := map[int32]struct{}{}
	for i := range nodes {
		if n := &nodes[i]; n.Live && n.ID != p.self {
			for _, id := range n.Routes {
				routes[id] = struct{}{}
			}
		}
	}
	p.mu.Lock()
	p.routes = routes
	p.mu.Unlock()
}
