package fetch

import (
	"errors"
	"net/netip"
	"time"

	"github.com/oncegate/oncegate/providers/scheme"
)

const (
	// maxRunning is how many attempts for unproven documents one source may run at once, and
	// maxRunningInAll all sources together. They bound the effect of a slow key store.
	maxRunning      = 4
	maxRunningInAll = 64

	// maxWaiting is how many requests may wait for one attempt, and maxWaitingUnproven for one of
	// an unproven document. Each waiting request keeps its body in memory.
	maxWaiting         = 64
	maxWaitingUnproven = 8

	// maxNear is how many networks of clients with authentic requests a source remembers, and near
	// is for how long.
	maxNear = 256
	near    = 24 * time.Hour

	// comeAgain is the delay after which a request that exceeded the budget may be repeated.
	comeAgain = 10 * time.Second
)

var (
	errBudget = errors.New("too many keys that have verified nothing were asked for")
	errCrowd  = errors.New("too many requests wait for keys")
	errPause  = errors.New("the keys were asked for a moment ago")
)

// Source fetches documents for one source of the configuration, within its budget. It implements
// [scheme.Fetcher], [scheme.Confirmer] and [scheme.Asker].
type Source struct {
	f *Fetcher

	// The fetcher's mutex guards the following fields.
	open, again, known lane
	near               map[netip.Prefix]time.Time // when each network last sent an authentic request
	running            int
}

var (
	_ scheme.Fetcher   = (*Source)(nil)
	_ scheme.Confirmer = (*Source)(nil)
	_ scheme.Asker     = (*Source)(nil)
)

// Source returns the Source with the given name. It creates it at the first call and returns the
// same one later.
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

// Ask calls [Fetcher.Ask].
func (s *Source) Ask(q *scheme.Question) ([]byte, error) { return s.f.Ask(q) }

// Confirm marks a document as proven, and remembers the network of the client that sent the
// verified request.
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

// Fetch returns a document. Concurrent callers share one attempt and its result. If an attempt
// fails, the last good copy stays in use.
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
		d.claimed = false // the store does not record that the configuration names it
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

// admit charges the budget for an unproven document. It returns a Deferral if the budget is
// exhausted.
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
