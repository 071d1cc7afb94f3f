package fetch

import (
	"context"
	"log/slog"
	"time"
)

const (
	// maxSaves is how many copies can wait to be saved. A copy that finds the queue full is saved
	// the next time that it verifies a request.
	maxSaves = 64

	// touch is how often the store is updated for a copy that still verifies requests.
	touch = 24 * time.Hour

	// loadEvery is how often the Fetcher loads the copies that other processes have saved.
	loadEvery = time.Minute
)

// Copy is a document that has verified a request.
type Copy struct {
	// Digest identifies the document. It covers the posted body, which is not stored.
	Digest [32]byte

	// URL is for operators. The Fetcher never requests it.
	URL string

	// Text is the document. nil removes the copy from the store, because the key store said that
	// the document no longer exists.
	Text []byte

	// FetchedAt is when the key store returned the document. ProvedAt is when it last verified a
	// request.
	FetchedAt, ProvedAt time.Time
}

// Store persists proven documents, so that after a restart verification does not depend on the key
// stores or on a budget that forged requests can exhaust.
type Store interface {
	// Load returns the copies, those that verified a request last first.
	Load(ctx context.Context) ([]Copy, error)

	// Save adds or replaces a copy, or removes it if it has no text.
	Save(ctx context.Context, c Copy) error
}

// Start loads the copies from the store, and then saves and loads in the background until Stop. A
// fetcher without a store needs no Start.
func (f *Fetcher) Start(ctx context.Context) error {
	if f.cfg.Store == nil {
		return nil
	}
	if err := f.Load(ctx); err != nil {
		return err
	}
	f.tasks.Go(f.keep)
	return nil
}

// Stop cancels all attempts and the work that Start began, and waits for them until ctx ends.
func (f *Fetcher) Stop(ctx context.Context) error {
	f.cancel()
	done := make(chan struct{})
	go func() { f.tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Load adopts the copies of the store that are newer than those in memory.
func (f *Fetcher) Load(ctx context.Context) error {
	copies, err := f.cfg.Store.Load(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(copies) - 1; i >= 0; i-- { // oldest first, so that the newest remain if there are too many
		f.adopt(&copies[i])
	}
	return nil
}

func (f *Fetcher) adopt(c *Copy) {
	if len(c.Text) == 0 {
		return
	}
	d := f.documents[c.Digest]
	if d == nil {
		d = &document{url: c.URL, claimed: true}
	}
	f.documents.prove(d, c.ProvedAt)
	f.documents[c.Digest] = d
	if d.text == nil || c.FetchedAt.After(d.at) {
		d.text, d.at, d.saved = c.Text, c.FetchedAt, c.ProvedAt
	}
}

// save queues a copy for the store, unless the store got it less than touch ago.
func (f *Fetcher) save(key digest, d *document, now time.Time) {
	if f.cfg.Store == nil || !d.saved.IsZero() && now.Sub(d.saved) < touch {
		return
	}
	select {
	case f.saves <- Copy{Digest: key, URL: d.url, Text: d.text, FetchedAt: d.at, ProvedAt: d.proved}:
		d.saved = now
	default:
	}
}

// keep saves and loads copies until the fetcher stops.
func (f *Fetcher) keep() {
	ticker := time.NewTicker(loadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case c := <-f.saves:
			f.write(c)
		case <-ticker.C:
			ctx, cancel := context.WithTimeout(f.ctx, f.cfg.Timeout)
			if err := f.Load(ctx); err != nil && f.ctx.Err() == nil {
				f.cfg.Logger.Warn("keys that have verified something were not loaded", slog.Any("error", err))
			}
			cancel()
		}
	}
}

func (f *Fetcher) write(c Copy) {
	ctx, cancel := context.WithTimeout(f.ctx, f.cfg.Timeout)
	defer cancel()
	err := f.cfg.Store.Save(ctx, c)
	if err == nil || f.ctx.Err() != nil {
		return
	}
	f.cfg.Logger.Warn("a key that has verified something was not saved", slog.Any("error", err))
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.documents[c.Digest]; d != nil {
		d.saved = time.Time{} // save it again when it next verifies a request
	}
}
