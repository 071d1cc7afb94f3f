package receiver

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
)

// SessionStore keeps the sessions of agents. [operation.AgentSessions] is one.
type SessionStore interface {
	// Open records a session whose token has the digest.
	Open(ctx context.Context, digest [sha256.Size]byte, s *operation.AgentSession) error

	// Find returns the session of a source whose token has the digest, ended or not, or
	// [inbox.ErrNotFound].
	Find(ctx context.Context, source int32, digest [sha256.Size]byte) (*operation.AgentSession, error)

	// End ends a session before its time.
	End(ctx context.Context, id inbox.ID) error

	// OperationKey returns the whole key of an operation, or [inbox.ErrNotFound].
	OperationKey(ctx context.Context, event inbox.ID) (string, error)
}

const (
	// sessionFresh is for how long a session that was read is believed: after so long, a
	// revocation is noticed.
	sessionFresh = 2 * time.Second

	// maxSessions bounds the sessions that a process remembers. One that is forgotten is read again.
	maxSessions = 10_000

	// maxRuns and maxLookupPeers bound the quotas of runs and of peers in memory. Those that are
	// full again go first, and they lose nothing.
	maxRuns        = 50_000
	maxLookupPeers = 4_096

	// How many tokens that this process has never known are looked up a second: of one peer, and of
	// all together, each in bursts. A token that turns out to be genuine does not count, so that
	// only guesses use this up.
	peerLookups, peerLookupBurst = 5, 20
	allLookups, allLookupBurst   = 50, 200
)

// errLookupDeferred means that too many unknown tokens were looked up in the last moment. The
// token may be genuine.
var errLookupDeferred = errors.New("too many unknown tokens")

// sessionKey is a token of a source. A process that has the digests has no token.
type sessionKey struct {
	source int32
	digest [sha256.Size]byte
}

type knownSession struct {
	session *operation.AgentSession
	readAt  time.Time
}

type runKey struct {
	source          int32
	credential, run string
}

// sessionTokens finds the sessions of tokens, at a bounded cost in the database.
type sessionTokens struct {
	store SessionStore

	mu    sync.Mutex
	known map[sessionKey]*knownSession
	runs  map[runKey]*quota
	peers map[netip.Addr]*quota
	all   *quota
}

// newSessionTokens continues the quotas of the receiver before, which may be nil. What that receiver knows of tokens is
// read again.
func newSessionTokens(store SessionStore, after *Receiver) *sessionTokens {
	out := &sessionTokens{
		store: store,
		known: map[sessionKey]*knownSession{}, runs: map[runKey]*quota{}, peers: map[netip.Addr]*quota{},
		all: newBurstQuota(allLookups, allLookupBurst),
	}
	if after != nil {
		before := after.operations.tokens
		before.mu.Lock()
		defer before.mu.Unlock()
		out.runs, out.peers, out.all = maps.Clone(before.runs), maps.Clone(before.peers), before.all
	}
	return out
}

func newBurstQuota(perSecond, burst float64) *quota {
	return &quota{perSecond: perSecond, burst: burst, tokens: burst}
}

// find returns the session of a token, ended or not. It returns [inbox.ErrNotFound] for an unknown
// token, errLookupDeferred if it may not ask the database now, and otherwise a fault of ours.
func (t *sessionTokens) find(ctx context.Context, source int32, token string, peer netip.Addr, now time.Time) (*operation.AgentSession, error) {
	key := sessionKey{source: source, digest: operation.TokenDigest(token)}
	fresh, isKnown := t.remembered(key, now)
	if fresh != nil {
		return fresh, nil
	}
	var permits []*quota
	if !isKnown { // a token that was genuine before is not delayed by unknown ones
		permits = t.permits(peer, now)
		if permits == nil {
			return nil, errLookupDeferred
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := t.store.Find(ctx, source, key.digest)
	if err != nil {
		if errors.Is(err, inbox.ErrNotFound) {
			t.forget(key)
		}
		return nil, err
	}
	for _, q := range permits {
		q.give()
	}
	t.remember(key, found, now)
	return found, nil
}

// remembered returns the session if it was read a moment ago. Otherwise the caller reads it, and
// callers that ask meanwhile get what was read before: each token costs one lookup in that time, for
// any number of calls.
func (t *sessionTokens) remembered(key sessionKey, now time.Time) (fresh *operation.AgentSession, isKnown bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	entry := t.known[key]
	switch {
	case entry == nil:
		return nil, false
	case now.Sub(entry.readAt) < sessionFresh:
		return entry.session, true
	}
	entry.readAt = now
	return nil, true
}

func (t *sessionTokens) remember(key sessionKey, session *operation.AgentSession, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxSessions {
		for other, entry := range t.known {
			if entry.session.Ended(now) {
				delete(t.known, other)
			}
		}
		dropSome(t.known, maxSessions)
	}
	t.known[key] = &knownSession{session: session, readAt: now}
}

func (t *sessionTokens) forget(key sessionKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, key)
}

// forgetSession makes the next call under the session read it again.
func (t *sessionTokens) forgetSession(id inbox.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, entry := range t.known {
		if entry.session.ID == id {
			delete(t.known, key)
		}
	}
}

// permits takes a lookup of an unknown token from the quotas, or none.
func (t *sessionTokens) permits(peer netip.Addr, now time.Time) []*quota {
	own := t.peerQuota(peer, now)
	if own.take(now) > 0 {
		return nil
	}
	if t.all.take(now) > 0 {
		own.give()
		return nil
	}
	return []*quota{own, t.all}
}

func (t *sessionTokens) peerQuota(peer netip.Addr, now time.Time) *quota {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := network(peer)
	q := t.peers[from]
	if q == nil {
		makeRoom(t.peers, maxLookupPeers, now)
		q = newBurstQuota(peerLookups, peerLookupBurst)
		t.peers[from] = q
	}
	return q
}

// runQuota returns the quota of a run's new keys a minute, or nil for no limit. It belongs to the run:
// another session of the run shares it, including what was used up.
func (t *sessionTokens) runQuota(s *operation.AgentSession, now time.Time) *quota {
	if s.NewKeys <= 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := runKey{source: s.SourceID, credential: s.Credential, run: s.Run}
	q := t.runs[key]
	if q == nil {
		makeRoom(t.runs, maxRuns, now)
		q = Quota{N: s.NewKeys, Per: time.Minute}.bucket("the run of the session")
		t.runs[key] = q
	}
	q.resize(s.NewKeys)
	return q
}

// resize makes it a quota of n a minute. What was used up stays used up.
func (q *quota) resize(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	used := q.burst - q.tokens
	q.perSecond, q.burst = float64(n)/60, float64(n)
	q.tokens = q.burst - used // may be less than none
}

// isFull reports whether nothing of it is used up, so that a new one is the same.
func (q *quota) isFull(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tokens+max(0, now.Sub(q.at).Seconds())*q.perSecond >= q.burst
}

// makeRoom keeps fewer than limit quotas, and those that are in use rather than those that are full.
func makeRoom[K comparable](quotas map[K]*quota, limit int, now time.Time) {
	if len(quotas) < limit {
		return
	}
	for key, q := range quotas {
		if q.isFull(now) {
			delete(quotas, key)
		}
	}
	dropSome(quotas, limit)
}

// dropSome drops a tenth of a map that is still full, so that it need not be walked for each new one.
func dropSome[K comparable, V any](m map[K]V, limit int) {
	if len(m) < limit {
		return
	}
	for key := range m {
		if len(m) <= limit-limit/10 {
			return
		}
		delete(m, key)
	}
}
