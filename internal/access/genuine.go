package access

import (
	"context"
	"sync"
	"time"
)

// genuineFor is how long the list of [genuine] is used. It is read again at most this often.
const genuineFor = time.Second

// genuine knows which digests exist, for the time in which guesses have used up the lookups. It costs the database one
// statement per [genuineFor], however many guesses come, and lets a genuine token or login through the flood.
type genuine struct {
	list func(ctx context.Context, limit int) ([]digest, error)

	mu     sync.Mutex
	readAt time.Time
	known  map[digest]struct{}
}

// has reports whether the digest existed when the list was read. If the list cannot be read, the previous one is used.
func (g *genuine) has(ctx context.Context, d digest, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.readAt.IsZero() || now.Sub(g.readAt) >= genuineFor {
		g.readAt = now
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		if found, err := g.list(ctx, maxKnown); err == nil {
			g.known = make(map[digest]struct{}, len(found))
			for _, one := range found {
				g.known[one] = struct{}{}
			}
		}
	}
	_, exists := g.known[d]
	return exists
}
