package prune_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/objectstore"
)

// errStore is the fault of a store.
var errStore = errors.New("the store is on fire")

// faulty is a store that fails on demand.
type faulty struct {
	archive.Store
	mu sync.Mutex

	// before and after are called with "put", "read" or "delete"; an error of theirs fails the request, before or after it was done.
	before, after func(op string) error
}

func (f *faulty) set(before, after func(op string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *faulty) do(op string, request func() error) error {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(op); err != nil {
			return err
		}
	}
	if err := request(); err != nil {
		return err
	}
	if after != nil {
		return after(op)
	}
	return nil
}

func (f *faulty) Put(ctx context.Context, name string, content []byte) error {
	return f.do("put", func() error { return f.Store.Put(ctx, name, content) })
}

func (f *faulty) Delete(ctx context.Context, name string) error {
	return f.do("delete", func() error { return f.Store.Delete(ctx, name) })
}

func (f *faulty) Read(ctx context.Context, name string, offset, length int64) (out []byte, err error) {
	err = f.do("read", func() error {
		out, err = f.Store.Read(ctx, name, offset, length)
		return err
	})
	return out, err
}

// failOn fails one kind of request.
func failOn(op string) func(string) error {
	return func(got string) error {
		if got == op {
			return errStore
		}
		return nil
	}
}

// archived is a past with an archive in a directory.
type archived struct {
	*storetest.Past
	dir     string
	store   *faulty
	archive *archive.Archive
	keys    *seal.Keyring
	now     time.Time // of the archive
}

func newArchived(t *testing.T, keys *seal.Keyring) *archived {
	t.Helper()
	p := &archived{Past: storetest.NewPast(t), dir: t.TempDir(), keys: keys, now: time.Now()}
	if keys != nil {
		p.Sealing(t, keys)
	}
	store, err := objectstore.Open(objectstore.Config{URL: "file://" + p.dir})
	if err != nil {
		t.Fatal(err)
	}
	p.store = &faulty{Store: store}
	p.archive, err = archive.New(archive.Config{
		Pool: p.Pool, Store: p.store, Keyring: keys,
		IsMissing: func(err error) bool { return errors.Is(err, objectstore.ErrNotExist) },
		Now:       func() time.Time { p.now = p.now.Add(time.Minute); return p.now }, // a failure is never remembered
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *archived) pruner(t *testing.T) *prune.Pruner {
	t.Helper()
	pruner, err := prune.New(prune.Config{Pool: p.Pool, Rate: -1, Archive: p.archive, Keyring: p.keys})
	if err != nil {
		t.Fatal(err)
	}
	return pruner
}

// pass makes one pass of prune from the beginning.
func (p *archived) pass(t *testing.T) prune.Report {
	t.Helper()
	report, err := p.pruner(t).Run(t.Context(), prune.Run{Anew: true})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// prune prunes until a pass is complete.
func (p *archived) prune(t *testing.T) (all prune.Report) {
	t.Helper()
	inboxtest.Until(t, "a pass that is complete", func() bool {
		all = all.Plus(p.pass(t))
		return all.Complete
	})
	return all
}

func (p *archived) lister() *read.Lister {
	return read.NewLister(p.Pool).WithKeyring(p.keys).WithArchive(p.archive)
}

func (p *archived) erase(t *testing.T, key string) (prune.Erased, error) {
	t.Helper()
	return prune.EraseEvent(t.Context(), p.Pool, prune.Erase{Source: "stripe", EventID: key, Actor: "ann", Reason: "asked", Keyring: p.keys, Archive: p.archive})
}

// objects returns the names of the objects with what another program makes of them: it decompresses the whole file.
func (p *archived) objects(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		reader, err := zstd.NewReader(bytes.NewReader(content))
		if err != nil {
			return err
		}
		defer reader.Close()
		var text bytes.Buffer
		if _, err := reader.WriteTo(&text); err != nil {
			return err
		}
		out[strings.TrimPrefix(path, p.dir+"/")] = text.String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// holds reports whether any object contains the text.
func (p *archived) holds(t *testing.T, text string) bool {
	t.Helper()
	for _, content := range p.objects(t) {
		if strings.Contains(content, text) {
			return true
		}
	}
	return false
}
