package archive

import (
	"container/list"
	"sync"
)

// cacheBytes bounds what is remembered of objects. A replay reads events in the order in which they are archived, so a few frames
// are enough for it.
const cacheBytes = 32 << 20

// cache remembers the frames and indexes that were read last. An object never changes under its name.
type cache struct {
	mu      sync.Mutex
	bytes   int64
	order   list.List // the last used first
	entries map[cacheKey]*list.Element
}

type cacheKey struct {
	name   string
	offset int64
}

type cacheEntry struct {
	key   cacheKey
	size  int64
	value any
}

func (c *cache) get(key cacheKey) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cacheEntry).value, true
}

func (c *cache) put(key cacheKey, size int64, value any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[key]; ok || size > cacheBytes {
		return
	}
	if c.entries == nil {
		c.entries = map[cacheKey]*list.Element{}
	}
	c.entries[key] = c.order.PushFront(&cacheEntry{key, size, value})
	for c.bytes += size; c.bytes > cacheBytes; {
		last := c.order.Back()
		entry := c.order.Remove(last).(*cacheEntry)
		delete(c.entries, entry.key)
		c.bytes -= entry.size
	}
}

// forget drops what is remembered of one object.
func (c *cache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.entries {
		if key.name == name {
			c.bytes -= e.Value.(*cacheEntry).size
			c.order.Remove(e)
			delete(c.entries, key)
		}
	}
}
