package jobs

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// MissingKey is a sealing key that effects have needed and that this process lacks.
type MissingKey struct {
	// ID identifies the key.
	ID int32

	// Last is when an effect needed it last.
	Last time.Time

	// Effects counts how often an effect was put off because the key is missing. An effect counts
	// each time.
	Effects uint64
}

// missingKeys remembers the missing keys because of which effects were put off.
type missingKeys struct {
	mu       sync.Mutex
	keys     []MissingKey
	reported time.Time
	waiting  uint64 // since then
	ids      []int32
}

// missingKeyEvery is how often the log says that effects wait for a key.
const missingKeyEvery = time.Minute

// MissingKeys returns, by id, the sealing keys that effects needed here and that this process
// lacked. A key stays in the list even if the process has got it since.
func (c *Client) MissingKeys() []MissingKey {
	c.missing.mu.Lock()
	defer c.missing.mu.Unlock()
	return slices.Clone(c.missing.keys)
}

// checkSealingKey puts off an effect that is sealed with a key this process lacks, without counting
// an attempt, because another process may have the key or this one may get it. It returns nil for
// every other effect.
func (a attempt) checkSealingKey(ctx context.Context) *inbox.Settlement {
	if a.claim.Event.GoneReason != reasons.KeyMissing {
		return nil
	}
	if n, ids := a.missing.add(a.claim.Event.MissingKey, a.now()); n > 0 {
		a.log.LogAttrs(ctx, slog.LevelWarn, "effects wait for a sealing key that this process lacks: give it the keyring that has the key",
			slog.Any("keys", ids), slog.Uint64("postponed", n))
	}
	s := putBack(a.claim, reasons.KeyMissing, a.jittered(longPause))
	return &s
}

// add counts one effect. Once a minute n is above 0: the number of effects put off since the log
// last said so. ids are the keys that they lacked.
func (m *missingKeys) add(id int32, now time.Time) (n uint64, ids []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, found := slices.BinarySearchFunc(m.keys, id, func(k MissingKey, id int32) int { return int(k.ID) - int(id) })
	if !found {
		m.keys = slices.Insert(m.keys, i, MissingKey{ID: id})
	}
	m.keys[i].Last = now
	m.keys[i].Effects++
	m.waiting++
	if !slices.Contains(m.ids, id) {
		m.ids = append(m.ids, id)
	}
	if now.Sub(m.reported) < missingKeyEvery {
		return 0, nil
	}
	n, ids = m.waiting, m.ids
	m.reported, m.waiting, m.ids = now, 0, nil
	return n, ids
}
