package fold

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// kinds counts lines by kind. A caller that logs looks up the kind in a map that is never modified,
// only replaced, and counts with atomic operations. Requests and workers therefore do not wait for
// each other, and folding a line allocates nothing.
type kinds struct {
	cfg Config

	all    atomic.Pointer[map[kind]*window]
	adding sync.Mutex

	closed atomic.Bool
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once

	since time.Time // start of the next summary; used only by run
}

// window is the current period of one kind.
type window struct {
	ends   atomic.Int64 // Unix nanoseconds
	left   atomic.Int64 // lines that may still be written in the period
	folded atomic.Int64 // since the last summary
}

func newKinds(cfg Config) *kinds {
	k := &kinds{cfg: cfg, stop: make(chan struct{}), done: make(chan struct{}), since: cfg.Now()}
	k.all.Store(&map[kind]*window{})
	return k
}

// takes reports whether the caller must not write the line, because takes has counted it as folded or
// because the mode Errors drops it.
func (k *kinds) takes(name kind, at time.Time) bool {
	hostile := slices.Contains(k.cfg.Hostile, name.message)
	ordinary := name.single && name.level < slog.LevelWarn && !hostile
	switch {
	case k.closed.Load(), k.cfg.Mode == All && !hostile:
		return false
	case k.cfg.Mode == Errors && ordinary:
		return true // metrics count the delivery or effect
	}
	w := k.window(name)
	now := at.UnixNano()
	if ends := w.ends.Load(); now >= ends && w.ends.CompareAndSwap(ends, now+int64(Every)) {
		if ordinary {
			w.left.Store(0)
		} else {
			w.left.Store(Burst - 1)
		}
		return false
	}
	if !ordinary && w.left.Add(-1) >= 0 {
		return false
	}
	w.folded.Add(1)
	return !k.closed.Load() || !w.takeBack()
}

// takeBack removes one line from the count if the last summary did not include it.
func (w *window) takeBack() bool {
	for n := w.folded.Load(); n > 0; n = w.folded.Load() {
		if w.folded.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

func (k *kinds) window(name kind) *window {
	all := *k.all.Load()
	if w := all[name]; w != nil {
		return w
	}
	if len(all) >= mostKinds {
		name = kind{level: name.level, message: name.message, single: name.single}
		if w := all[name]; w != nil {
			return w
		}
	}
	k.adding.Lock()
	defer k.adding.Unlock()
	all = *k.all.Load()
	if w := all[name]; w != nil {
		return w
	}
	w := &window{}
	next := maps.Clone(all)
	next[name] = w
	k.all.Store(&next)
	return w
}

func (k *kinds) run() {
	defer close(k.done)
	ticker := time.NewTicker(Summary)
	defer ticker.Stop()
	for {
		select {
		case <-k.stop:
			k.summarise()
			return
		case <-ticker.C:
			k.summarise()
		}
	}
}

// close ends the summaries. Call it after everything that logs has stopped; a line that is logged
// nevertheless is written.
func (k *kinds) close() {
	k.once.Do(func() {
		k.closed.Store(true)
		close(k.stop)
	})
	<-k.done
}

// summarise writes one line for each kind of which lines were folded since the previous summary.
func (k *kinds) summarise() {
	now, all := k.cfg.Now(), *k.all.Load()
	for _, name := range slices.SortedFunc(maps.Keys(all), before) {
		lines := all[name].folded.Swap(0)
		if lines == 0 {
			continue
		}
		r := slog.NewRecord(now, name.level, Message, 0)
		r.AddAttrs(name.attrs(lines, k.since)...)
		// An error of the log handler cannot be logged.
		_ = k.cfg.Next.Handle(context.Background(), r)
	}
	k.since = now
}
