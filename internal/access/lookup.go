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
	// fresh is for how long a token or a login that was read is believed. After so long a process
	// notices that it was revoked.
	fresh = 2 * time.Second

	// maxKnown bounds the tokens and the logins that a process remembers. One that is forgotten is
	// read again.
	maxKnown = 10_000

	// lookupTimeout bounds one question to the database.
	lookupTimeout = 5 * time.Second
)

type digest = [sha256.Size]byte

// errNotFound is what a find of [lookups] returns for a digest that nothing has.
var errNotFound = errors.New("not found")

// lookups finds what belongs to a digest, at a bounded cost in the database: what is known is read
// once in [fresh], and of unknown digests each peer may ask for a few a second. A guess therefore
// neither floods the database nor holds up anybody whose token or login is known.
type lookups[V any] struct {
	find    func(ctx context.Context, d digest) (V, error)
	guesses *guesses

	mu    sync.Mutex
	known map[digest]*known[V]
}

type known[V any] struct {
	value  V
	readAt time.Time
	usedAt time.Time // when a use was recorded last, by this process
}

func newLookups[V any](guesses *guesses, find func(ctx context.Context, d digest) (V, error)) *lookups[V] {
	return &lookups[V]{find: find, guesses: guesses, known: map[digest]*known[V]{}}
}

// get gives what belongs to the digest. It returns errNotFound, errTooMany if the database is not
// asked for now, or else a fault of ours.
func (l *lookups[V]) get(ctx context.Context, d digest, peer netip.Addr, now time.Time) (V, error) {
	value, isFresh, isKnown := l.remembered(d, now)
	if isFresh {
		return value, nil
	}
	if !isKnown && !l.guesses.take(peer, now) {
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
	case !isKnown:
		l.guesses.give(peer) // a genuine one is no guess
	}
	l.remember(d, found, now)
	return found, nil
}

// remembered gives a value that was read a moment ago. Otherwise the caller reads it again, and
// whoever asks meanwhile goes by what was read before.
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

// isUseDue reports whether a use is to be recorded now: at most once in a time, also if the last was
// recorded by another process.
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

// dropTenth makes room in a full map, so that it need not be walked for each new entry.
func dropTenth[K comparable, V any](m map[K]V) {
	drop := len(m)/10 + 1
	for key := range m {
		if drop--; drop < 0 {
			return
		}
		delete(m, key)
	}
}
