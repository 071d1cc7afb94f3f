package providers

import (
	"hash"
	"io"
	"sync"
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
	key  []byte // decoded
	text []byte // texts become bytes here; reused
	sum  []byte // reused
}

// WriteString adds a text to the message without an allocation for its bytes.
func (m *mac) WriteString(text string) (int, error) {
	if len(text) > maxID {
		return m.Write([]byte(text)) // rare; not worth keeping the room
	}
	m.text = append(m.text[:0], text...)
	return m.Write(m.text)
}

// finish returns the sum, which is valid until the state is used again.
func (m *mac) finish() []byte {
	m.sum = m.Sum(m.sum[:0])
	return m.sum
}

// macs keeps the states of secrets that have verified a delivery: to make one
// costs decoding the key, two blocks of hashing and most of the allocations of an
// HMAC. It is bounded, and only a secret that matched enters, so that neither
// senders nor guesses at what is wrong with a secret fill it. States are found by
// the secret's bytes: a rotated secret has states of its own.
type macs struct {
	mu    sync.RWMutex
	pools map[string]*sync.Pool
}

// take returns a state of the secret, at its beginning; nil if there is none.
func (m *macs) take(secret []byte) *mac {
	m.mu.RLock()
	pool := m.pools[string(secret)]
	m.mu.RUnlock()
	if pool == nil {
		return nil
	}
	state, _ := pool.Get().(*mac)
	return state
}

// keep takes a state back. One that never matched is kept only if its secret has.
func (m *macs) keep(secret []byte, state *mac, matched bool) {
	m.mu.RLock()
	pool := m.pools[string(secret)]
	m.mu.RUnlock()
	if pool == nil {
		if !matched {
			return
		}
		pool = m.enter(secret)
	}
	state.Reset()
	pool.Put(state)
}

func (m *macs) enter(secret []byte) *sync.Pool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pool := m.pools[string(secret)]; pool != nil {
		return pool
	}
	if len(m.pools) >= maxKeys {
		clear(m.pools)
	}
	if m.pools == nil {
		m.pools = make(map[string]*sync.Pool)
	}
	pool := &sync.Pool{}
	m.pools[string(secret)] = pool
	return pool
}
