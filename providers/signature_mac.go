package providers

import (
	"hash"
	"io"
	"maps"
	"sync"
	"sync/atomic"
)

// maxKeys limits for how many secrets a scheme keeps states.
const maxKeys = 1024

// sink receives the signed bytes.
type sink interface {
	io.Writer
	io.StringWriter
}

// mac is a running HMAC or digest, with reusable buffers.
type mac struct {
	hash.Hash
	home  *sync.Pool // the pool that it came from; nil for a new one
	key   []byte     // decoded
	short []byte     // bytes that are written but not yet hashed; reused
	sum   []byte     // reused
}

// Write adds a part to the message. It collects short parts before it hashes them, because hashing
// a few bytes costs nearly as much as a block.
func (m *mac) Write(part []byte) (int, error) {
	if len(m.short)+len(part) <= maxID {
		m.short = append(m.short, part...)
		return len(part), nil
	}
	m.flush()
	return m.Hash.Write(part)
}

// WriteString is Write for a string, without an allocation for its bytes.
func (m *mac) WriteString(part string) (int, error) {
	if len(m.short)+len(part) > maxID {
		return m.Write([]byte(part)) // rare, so an allocation does not matter
	}
	m.short = append(m.short, part...)
	return len(part), nil
}

func (m *mac) flush() {
	_, _ = m.Hash.Write(m.short)
	m.short = m.short[:0]
}

// finish returns the sum, which is valid until the state is used again.
func (m *mac) finish() []byte {
	m.flush()
	m.sum = m.Sum(m.sum[:0])
	return m.sum
}

// macs keeps the states of secrets that have verified a delivery, because a new state costs
// decoding the key, hashing two blocks and most of the allocations of an HMAC. The number of states
// is limited. Only a secret that matched is added, so neither senders nor Diagnose can fill it.
// States are found by the secret's bytes, so a rotated secret gets its own. The map is replaced and
// never changed, because deliveries read it all the time and secrets are added rarely.
type macs struct {
	entering sync.Mutex
	pools    atomic.Pointer[map[string]*sync.Pool]
}

// take returns a state of the secret without any message, or nil if there is none.
func (m *macs) take(secret []byte) *mac {
	pools := m.pools.Load()
	if pools == nil {
		return nil
	}
	pool := (*pools)[string(secret)]
	if pool == nil {
		return nil
	}
	state, _ := pool.Get().(*mac)
	if state != nil {
		state.home = pool
	}
	return state
}

// keep returns a state to its pool. It keeps a new state only if the secret matched.
func (m *macs) keep(secret []byte, state *mac, matched bool) {
	if state.home == nil {
		if !matched {
			return
		}
		state.home = m.enter(secret)
	}
	state.Reset()
	state.home.Put(state)
}

func (m *macs) enter(secret []byte) *sync.Pool {
	m.entering.Lock()
	defer m.entering.Unlock()
	next := map[string]*sync.Pool{}
	if pools := m.pools.Load(); pools != nil {
		if pool := (*pools)[string(secret)]; pool != nil {
			return pool
		}
		if len(*pools) < maxKeys {
			maps.Copy(next, *pools)
		}
	}
	pool := &sync.Pool{}
	next[string(secret)] = pool
	m.pools.Store(&next)
	return pool
}
