package fetch

import (
	"bytes"
	"errors"
	"log/slog"
	"time"

	"github.com/oncegate/oncegate/providers/scheme"
)

// maxKept is how many bytes of a key store's error response are kept with a document.
const maxKept = 4 << 10

// held returns the cached copy if it may be used. If the copy of a trusted document is older than
// Config.Keep, held starts a renewal in the background, so that requests whose key is cached do not
// wait for a slow key store.
func (f *Fetcher) held(want *scheme.KeyRequest, key digest, d *document, now time.Time) []byte {
	if d == nil || d.text == nil || want.Renew {
		return nil
	}
	age := now.Sub(d.at)
	if age < f.cfg.Keep || want.Held {
		return d.text
	}
	if !d.trusted() || age >= f.cfg.Stale {
		return nil
	}
	if d.running == nil && !f.early(d, now) && f.ctx.Err() == nil {
		a, again := f.begin(d, nil, now), *want
		f.tasks.Go(func() { f.run(&again, key, d, a) })
	}
	return d.text
}

// early reports whether the last attempt is less than Config.Pause ago.
func (f *Fetcher) early(d *document, now time.Time) bool {
	return !d.tried.IsZero() && now.Sub(d.tried) < f.cfg.Pause
}

// again answers a request within Config.Pause of the last attempt. It repeats the result of that
// attempt.
func (f *Fetcher) again(want *scheme.KeyRequest, d *document, now time.Time) ([]byte, error) {
	after := f.cfg.Pause - now.Sub(d.tried)
	switch {
	case want.Renew && d.text != nil && d.at.After(want.ReceivedAt) && !want.ReceivedAt.IsZero():
		return d.text, nil // fetched after the request arrived, so the copy contains every key that can have signed it
	case want.Renew && d.text != nil:
		f.stats.Pause++
		err := d.err
		if err == nil {
			err = errPause
		}
		return nil, &scheme.Deferral{After: after, Err: err}
	case d.text != nil:
		return d.text, nil
	}
	return nil, failure(d, d.err, after)
}

// failure returns the error of an attempt that returned no document. For an untrusted document, an
// error other than scheme.ErrNoKey becomes a Deferral, because any client may have named the document
// and an operator need not act.
func failure(d *document, err error, after time.Duration) error {
	if d.trusted() || errors.Is(err, scheme.ErrNoKey) {
		return err
	}
	return &scheme.Deferral{After: after, Err: err}
}

func (f *Fetcher) begin(d *document, counted *Source, now time.Time) *attempt {
	if counted != nil {
		counted.running++
		f.running++
	}
	d.tried = now
	d.running = &attempt{source: counted, done: make(chan struct{})}
	return d.running
}

// wait waits for a running attempt and returns its result. The caller holds f.mu; wait unlocks it.
// The attempt has its own deadline.
func (f *Fetcher) wait(want *scheme.KeyRequest, d *document) ([]byte, error) {
	most := maxWaiting
	if !d.trusted() {
		most = maxWaitingUnproven
	}
	if d.waiting >= most {
		f.stats.Crowd++
		f.mu.Unlock()
		return nil, &scheme.Deferral{After: time.Second, Err: errCrowd}
	}
	d.waiting++
	a := d.running
	f.mu.Unlock()
	<-a.done
	f.mu.Lock()
	d.waiting--
	f.mu.Unlock()
	return f.outcome(want, d, a)
}

// outcome converts the result of an attempt for one of the requests that wait for it.
func (f *Fetcher) outcome(want *scheme.KeyRequest, d *document, a *attempt) ([]byte, error) {
	switch {
	case a.err == nil:
		return a.text, nil
	case want.Renew && a.text != nil:
		return nil, &scheme.Deferral{After: f.cfg.Pause, Err: a.err}
	case a.text != nil:
		return a.text, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return nil, failure(d, a.err, f.cfg.Pause)
}

// run makes an attempt and wakes the requests that wait for it.
func (f *Fetcher) run(want *scheme.KeyRequest, key digest, d *document, a *attempt) {
	text, err := f.get(want)
	if store, ok := errors.AsType[*scheme.StoreError](err); ok && len(store.Body) > maxKept {
		store.Body = bytes.Clone(store.Body[:maxKept])
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.count(d, err)
	d.err = err
	switch {
	case err == nil:
		if !bytes.Equal(d.text, text) {
			d.saved = time.Time{}
		}
		d.text, d.at, d.missing = text, f.cfg.Now(), 0
	case errors.Is(err, scheme.ErrNoKey) && d.claimed:
		if d.missing++; d.missing >= maxMissing || !d.proven {
			f.forget(key, d)
		}
	}
	if err != nil && d.text != nil {
		f.cfg.Logger.Warn("keys not fetched, the last copy is used", slog.Any("error", err))
	}
	if s := a.source; s != nil {
		s.running--
		f.running--
	}
	a.text, a.err = d.text, err
	d.running = nil
	close(a.done)
}

// forget drops a copy after the key store has said that the document does not exist.
func (f *Fetcher) forget(key digest, d *document) {
	if d.proven && f.cfg.Store != nil {
		select {
		case f.saves <- Copy{Digest: key, URL: d.url}:
		default: // after a restart, the copy is loaded and forgotten again
		}
	}
	d.text, d.proven = nil, false
}
