package providers

import (
	"hash"
	"io"
	"maps"
	"sync"
	"sync/atomic"
)

// maxKeys bounds how many secrets' states a scheme keeps.
const maxKeys = 1024

// sink takes the signed bytes.
type sink interface {
	io.Writer
	io.StringWriter
}

// mac is an HMAC or digest under way, with room for what goes through it.
type mac struct {
	hash.Hash
	home  *sync.Pool // where it was taken; nil for a new one
	key   []byte     // decoded
	short []byte     // what was written and is not hashed yet; reused
	sum   []byte     // reused
}

// Write adds a part to the message. Short parts are hashed together with those
// beside them: to hash a few bytes costs nearly as much as a block.
func (m *mac) Write(part []byte) (int, error) {
	if len(m.short)+len(part) <= maxID {
		m.short = append(m.short, part...)
		return len(part), nil
	}
	m.flush()
	return m.Hash.Write(part)
}

// WriteString is Write for a text, without an allocation for its bytes.
func (m *mac) WriteString(part string) (int, error) {
	if len(m.short)+len(part) > maxID {
		return m.Write([]byte(part)) // rare; not worth keeping the room
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

// macs keeps the states of secrets that have verified a delivery: to make one
// costs decoding the key, two blocks of hashing and most of the allocations of an
// HMAC. It is bounded, and only a secret that matched enters, so that neither
// senders nor guesses at what is wrong with a secret fill it. States are found by
// the secret's bytes: a rotated secret has states of its own. The map is replaced,
// never changed, since deliveries look into it all the time and secrets enter rarely.
type macs struct {
	entering sync.Mutex
	pools    atomic.Pointer[map[string]*sync.Pool]
}

// take returns a state of the secret, at its beginning; nil if there is none.
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

// keep takes a state back. A new one is kept only if it matched.
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
