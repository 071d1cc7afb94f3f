package fetch

import (
	"errors"
	"net/netip"
	"time"

	"github.com/oncegate/oncegate/providers/scheme"
)

const (
	// maxRunning is how many attempts for documents that have verified nothing a source
	// has under way, and maxRunningInAll all sources together: a key store may be slow.
	maxRunning      = 4
	maxRunningInAll = 64

	// maxWaiting is how many requests wait for one attempt, and maxWaitingUnproven for one
	// that is for what has verified nothing. Each holds its body.
	maxWaiting         = 64
	maxWaitingUnproven = 8

	// maxNear is how many networks of clients that have sent something authentic a
	// source remembers, and near for how long.
	maxNear = 256
	near    = 24 * time.Hour

	// comeAgain is after how long it may be worth to ask once more for what had no
	// place in the budget.
	comeAgain = 10 * time.Second
)

var (
	errBudget = errors.New("too many keys that have verified nothing were asked for")
	errCrowd  = errors.New("too many requests wait for keys")
	errPause  = errors.New("the keys were asked for a moment ago")
)

// Source asks for the documents of one source of the configuration, with its budget. It
// implements [scheme.Fetcher], [scheme.Confirmer] and [scheme.Asker].
type Source struct {
	f *Fetcher

	// Guarded by the fetcher's mutex.
	open, again, known lane
	near               map[netip.Prefix]time.Time // when they last sent something authentic
	running            int
}

var (
	_ scheme.Fetcher   = (*Source)(nil)
	_ scheme.Confirmer = (*Source)(nil)
	_ scheme.Asker     = (*Source)(nil)
)

// Source gives the source of a name, and the same one each time.
func (f *Fetcher) Source(name string) *Source {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sources[name]
	if s == nil {
		third := f.cfg.Rate / 3
		share := third / 3
		s = &Source{f: f, open: newLane(third, share), again: newLane(third, share), known: newLane(third, share), near: map[netip.Prefix]time.Time{}}
		f.sources[name] = s
	}
	return s
}

// Ask is [Fetcher.Ask].
func (s *Source) Ask(q *scheme.Question) ([]byte, error) { return s.f.Ask(q) }

// Confirm keeps a document that has verified something, and remembers where its request
// came from.
func (s *Source) Confirm(want scheme.KeyRequest) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now()
	s.remember(network(want.Remote), now)
	key := digestOf(&want)
	d := f.documents[key]
	if d == nil || d.text == nil {
		return
	}
	f.documents.prove(d, now)
	f.save(key, d, now)
}

func (s *Source) remember(from netip.Prefix, now time.Time) {
	if !from.IsValid() {
		return
	}
	if _, ok := s.near[from]; !ok && len(s.near) >= maxNear {
		oldest := from
		for other, at := range s.near {
			if oldest == from || at.Before(s.near[oldest]) {
				oldest = other
			}
		}
		delete(s.near, oldest)
	}
	s.near[from] = now
}

// Fetch gives a document. However many ask for it, one attempt is made; those that wait
// for it share its end. An attempt that fails leaves the last good copy in use.
func (s *Source) Fetch(want scheme.KeyRequest) ([]byte, error) {
	if !scheme.Allowed(want.URL, want.Hosts) {
		return nil, errForbidden
	}
	f := s.f
	key := digestOf(&want)
	f.mu.Lock()
	now := f.cfg.Now()
	d := f.documents[key]
	if d != nil && !want.Claimed {
		d.claimed = false // the store does not know who names it
	}
	if text := f.held(&want, key, d, now); text != nil {
		f.mu.Unlock()
		return text, nil
	}
	if want.Held {
		f.mu.Unlock()
		return nil, scheme.ErrNotHeld
	}
	if d != nil && d.running != nil {
		return f.wait(&want, d) // unlocks
	}
	if d != nil && f.early(d, now) {
		defer f.mu.Unlock()
		return f.again(&want, d, now)
	}
	var counted *Source
	if want.Claimed && (d == nil || !d.proven) {
		if err := s.admit(key, want.Remote, now); err != nil {
			f.mu.Unlock()
			return nil, err
		}
		counted = s
	}
	if d == nil {
		d = f.documents.add(key, &want)
	}
	a := f.begin(d, counted, now)
	f.mu.Unlock()
	f.run(&want, key, d, a)
	return f.outcome(&want, d, a)
}

// admit finds a place in the budget for a document that has verified nothing.
func (s *Source) admit(key digest, client netip.Addr, now time.Time) error {
	f := s.f
	from, age := network(client), now.Sub(f.began)
	if s.running >= maxRunning || f.running >= maxRunningInAll {
		f.stats.Crowd++
		f.putOff.add(key, age)
		return &scheme.Deferral{After: time.Second, Err: errCrowd}
	}
	at, ok := s.near[from]
	switch {
	case s.open.free(now, from) && f.open.free(now, from):
		s.open.pass(now, from)
		f.open.pass(now, from)
	case f.putOff.has(key, age) && s.again.free(now, from):
		s.again.pass(now, from)
	case ok && now.Sub(at) < near && s.known.free(now, from):
		s.known.pass(now, from)
	default:
		f.stats.Budget++
		f.putOff.add(key, age)
		return &scheme.Deferral{After: comeAgain, Err: errBudget}
	}
	return nil
}
