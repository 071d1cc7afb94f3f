package objectstore_test

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/oncegate/oncegate/internal/objectstore"
)

// s3 starts an S3 server in memory that has one bucket.
func s3(t *testing.T) (endpoint string, backend *s3mem.Backend) {
	t.Helper()
	backend = s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return server.URL, backend
}

func open(t *testing.T, cfg objectstore.Config) objectstore.Store {
	t.Helper()
	store, err := objectstore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestStores exercises both kinds: what is written is read back in parts, replaced as a whole, and gone once it is deleted.
func TestStores(t *testing.T) {
	t.Parallel()
	endpoint, backend := s3(t)
	dir := t.TempDir()
	for name, stored := range map[string]struct {
		store objectstore.Store
		raw   func(name string) ([]byte, error)
	}{
		"directory": {open(t, objectstore.Config{URL: "file://" + dir}), func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) }},
		"bucket": {
			open(t, objectstore.Config{URL: "s3://bucket/some/prefix", Endpoint: endpoint, AccessKey: "a", SecretKey: "s"}),
			func(name string) ([]byte, error) {
				object, err := backend.GetObject("bucket", "some/prefix/"+name, nil)
				if err != nil {
					return nil, err
				}
				return io.ReadAll(object.Contents)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := t.Context(), stored.store
			if _, err := s.Read(ctx, "a/b/c", 0, 1); !errors.Is(err, objectstore.ErrNotExist) {
				t.Errorf("an object that was never written: %v", err)
			}
			for _, content := range [][]byte{[]byte("0123456789"), bytes.Repeat([]byte("long"), 1<<20)} {
				if err := s.Put(ctx, "a/b/c", content); err != nil {
					t.Fatal(err)
				}
				if got, err := stored.raw("a/b/c"); err != nil || !bytes.Equal(got, content) {
					t.Errorf("another client reads %d bytes, %v", len(got), err)
				}
			}
			if got, err := s.Read(ctx, "a/b/c", 2, 5); err != nil || string(got) != "nglon" {
				t.Errorf("a range: %q, %v", got, err)
			}
			if _, err := s.Read(ctx, "a/b/c", 4<<20-1, 2); !errors.Is(err, objectstore.ErrCut) {
				t.Errorf("a range beyond the end: %v", err)
			}
			for range 2 {
				if err := s.Delete(ctx, "a/b/c"); err != nil {
					t.Errorf("deleting: %v", err)
				}
			}
			if _, err := s.Read(ctx, "a/b/c", 0, 1); !errors.Is(err, objectstore.ErrNotExist) {
				t.Errorf("a deleted object: %v", err)
			}
			if err := objectstore.Probe(ctx, s); err != nil {
				t.Errorf("a probe: %v", err)
			}
			if kept, err := s.Keeps(ctx); kept != "" || err != nil {
				t.Errorf("keeps: %q, %v", kept, err)
			}
		})
	}
}

// TestVersioningKeeps: a bucket that keeps deleted objects says so.
func TestVersioningKeeps(t *testing.T) {
	t.Parallel()
	endpoint, backend := s3(t)
	var versioning gofakes3.VersioningConfiguration
	versioning.SetEnabled(true)
	if err := backend.SetVersioningConfiguration("bucket", versioning); err != nil {
		t.Fatal(err)
	}
	s := open(t, objectstore.Config{URL: "s3://bucket", Endpoint: endpoint, AccessKey: "a", SecretKey: "s"})
	if kept, err := s.Keeps(t.Context()); err != nil || !strings.Contains(kept, "versioning") {
		t.Errorf("%q, %v", kept, err)
	}
}

// TestProbeFails: what cannot be written is an error that says which step failed, and no secret.
func TestProbeFails(t *testing.T) {
	t.Parallel()
	endpoint, _ := s3(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []objectstore.Config{
		{URL: "s3://missing", Endpoint: endpoint, AccessKey: "a", SecretKey: "hidden"},
		{URL: "s3://bucket", Endpoint: closed.URL, AccessKey: "a", SecretKey: "hidden"},
		{URL: "file://" + file},
	} {
		err := objectstore.Probe(t.Context(), open(t, cfg))
		if err == nil || !strings.HasPrefix(err.Error(), "writing: ") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s at %s: %v", cfg.URL, cfg.Endpoint, err)
		}
	}
}

// TestOpenRefuses lists settings that can never work.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, cfg := range []objectstore.Config{
		{},
		{URL: "/var/lib/archive"},
		{URL: "file://host/path"},
		{URL: "file:///"},
		{URL: "gs://bucket"},
		{URL: "s3://"},
		{URL: "s3://user:secret@bucket"},
		{URL: "s3://bucket?a=b"},
		{URL: "s3://bucket", AccessKey: "a"},
		{URL: "s3://bucket", SecretKey: "s"},
		{URL: "s3://bucket", Endpoint: "s3.example.com"},
		{URL: "s3://bucket", Endpoint: "https://s3.example.com/path"},
	} {
		if _, err := objectstore.Open(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		} else if strings.Contains(err.Error(), "secret@") {
			t.Errorf("%+v: the error has the secret: %v", cfg, err)
		}
	}
}
