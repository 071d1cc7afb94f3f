package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"sync"
	"time"
)

const (
	// fresh is how long a token or a login that was read is trusted without reading it again. A
	// process therefore notices a revocation after at most this time.
	fresh = 2 * time.Second

	// maxKnown is the most tokens, and the most logins, that a process remembers. It reads a
	// forgotten one again.
	maxKnown = 10_000

	// lookupTimeout limits one database query.
	lookupTimeout = 5 * time.Second
)

type digest = [sha256.Size]byte

// errNotFound is returned by the find function of [lookups] if the digest does not exist.
var errNotFound = errors.New("not found")

// lookups finds the value for a digest at a limited cost for the database: it reads a known value
// at most once per [fresh], and each peer may look up only a few unknown digests per second.
// Guessing therefore does not flood the database. It delays no caller whose token or login exists: while no lookups are left,
// [genuine] says which digests exist.
type lookups[V any] struct {
	find    func(ctx context.Context, d digest) (V, error)
	guesses *guesses
	genuine *genuine

	mu    sync.Mutex
	known map[digest]*known[V]
}

type known[V any] struct {
	value  V
	readAt time.Time
	usedAt time.Time // when this process last recorded a use
}

func newLookups[V any](guesses *guesses, find func(ctx context.Context, d digest) (V, error), list func(ctx context.Context, limit int) ([]digest, error)) *lookups[V] {
	return &lookups[V]{find: find, guesses: guesses, genuine: &genuine{list: list}, known: map[digest]*known[V]{}}
}

// get returns the value for a digest. It returns errNotFound, errTooMany if the peer must wait, or
// an internal error.
func (l *lookups[V]) get(ctx context.Context, d digest, peer netip.Addr, now time.Time) (V, error) {
	value, isFresh, isKnown := l.remembered(d, now)
	if isFresh {
		return value, nil
	}
	taken := !isKnown && l.guesses.take(peer, now)
	if !isKnown && !taken && !l.genuine.has(ctx, d, now) {
		return value, errTooMany
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := l.find(ctx, d)
	switch {
	case errors.Is(err, errNotFound):
		l.forget(d)
		return value, err
	case err != nil:
		return value, err
	case taken:
		l.guesses.give(peer) // a digest that exists was not a guess
	}
	l.remember(d, found, now)
	return found, nil
}

// remembered returns a value that was read less than [fresh] ago. If the value is older, this
// caller must read it again, and remembered returns the old value to other callers in the meantime.
func (l *lookups[V]) remembered(d digest, now time.Time) (value V, isFresh, isKnown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.known[d]
	switch {
	case entry == nil:
		return value, false, false
	case now.Sub(entry.readAt) < fresh:
		return entry.value, true, true
	}
	entry.readAt = now
	return value, false, true
}

func (l *lookups[V]) remember(d digest, value V, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= maxKnown {
		dropTenth(l.known)
	}
	entry := l.known[d]
	if entry == nil {
		entry = &known[V]{}
		l.known[d] = entry
	}
	entry.value, entry.readAt = value, now
}

// isUseDue reports whether the caller must record a use now: at most once per interval, counting
// uses that other processes recorded.
func (l *lookups[V]) isUseDue(d digest, last, now time.Time, every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.known[d]
	if entry == nil || now.Sub(last) < every || now.Sub(entry.usedAt) < every {
		return false
	}
	entry.usedAt = now
	return true
}

func (l *lookups[V]) forget(d digest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, d)
}

// dropTenth removes a tenth of a full map, so that the map is not walked for each new entry.
func dropTenth[K comparable, V any](m map[K]V) {
	drop := len(m)/10 + 1
	for key := range m {
		if drop--; drop < 0 {
			return
		}
		delete(m, key)
	}
}
