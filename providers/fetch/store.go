package fetch

import (
	"context"
	"log/slog"
	"time"
)

const (
	// maxSaves is how many copies wait to be saved. What finds no room is saved the next
	// time it verifies something.
	maxSaves = 64

	// touch is how often the store is told that a copy still verifies something.
	touch = 24 * time.Hour

	// loadEvery is how often the store is read for what other processes have learnt.
	loadEvery = time.Minute
)

// Copy is a document that has verified something.
type Copy struct {
	// Digest identifies the document. What was posted for it is only in the digest.
	Digest [32]byte

	// URL is for people; nothing is asked for by it.
	URL string

	// Text is the document. nil takes the copy out of the store: the key store said that
	// the document does not exist any more.
	Text []byte

	// FetchedAt is when the key store gave it, and ProvedAt when it last verified
	// something.
	FetchedAt, ProvedAt time.Time
}

// Store keeps the documents that have verified something beyond the process, so that a
// restart needs no key store and has no budget to share with forgeries.
type Store interface {
	// Load gives the copies, those that verified something last first.
	Load(ctx context.Context) ([]Copy, error)

	// Save adds or replaces a copy, or takes it out if it has no text.
	Save(ctx context.Context, c Copy) error
}

// Start loads what the store has, and then saves and loads until Stop. A fetcher without
// a store needs no Start.
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

// Stop ends attempts and what Start has begun, and waits for them until ctx ends.
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

// Load takes over what the store has and is newer than what is in hand.
func (f *Fetcher) Load(ctx context.Context) error {
	copies, err := f.cfg.Store.Load(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(copies) - 1; i >= 0; i-- { // so that the last stay where there are too many
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

// save tells the store of a copy that has verified something, if it does not know.
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

// keep saves and loads until the fetcher stops.
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
		d.saved = time.Time{} // when it next verifies something
	}
}
