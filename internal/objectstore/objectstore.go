// Package objectstore writes, reads and deletes objects in a bucket of an S3-compatible store or in a directory. It knows names
// and bytes, and nothing of events.
//
// The endpoint of a store is set by the operator, as the database's address is, and never by data that senders control.
// Therefore no guard of package egress is in front of it.
package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Store is one place for objects. Its methods may be called concurrently.
type Store interface {
	// Put writes an object, replaces one of the same name, and returns once the object is durable and its size was read back.
	Put(ctx context.Context, name string, content []byte) error

	// Read returns length bytes of an object from offset. It returns [ErrNotExist] if there is no such object.
	Read(ctx context.Context, name string, offset, length int64) ([]byte, error)

	// Delete deletes an object. An object that does not exist counts as deleted.
	Delete(ctx context.Context, name string) error

	// Keeps says, in one sentence, what makes the store keep an object that was deleted, such as versioning. It is empty if nothing
	// does.
	Keeps(ctx context.Context) (string, error)

	// String returns the address of the store, without secrets.
	String() string
}

// ErrNotExist means that the store has no object of the name.
var ErrNotExist = errors.New("the object does not exist")

// ErrCut means that an object ends before the bytes that were asked for.
var ErrCut = errors.New("the object is shorter than its row says")

// timeout bounds one request, so that a store that says nothing holds nothing up for longer.
const timeout = 30 * time.Second

// Config says where the objects are.
type Config struct {
	// URL is s3://bucket/prefix or file:///directory.
	URL string

	// Endpoint is the address of an S3-compatible store, http:// or https://. Empty means AWS.
	Endpoint string
	// Region is the region of the bucket. Empty means us-east-1.
	Region string
	// AccessKey and SecretKey are the account. If both are empty, the role of the machine is used.
	AccessKey, SecretKey string
}

// Open returns the store, or an error that names the setting that is wrong. It connects to nothing.
func Open(cfg Config) (Store, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("url: neither s3://bucket/prefix nor file:///directory")
	}
	switch {
	case u.Scheme == "file" && u.Host == "" && len(u.Path) > 1:
		return directory(u.Path), nil
	case u.Scheme == "s3" && u.Host != "" && u.Port() == "":
		return newBucket(cfg, u.Host, strings.Trim(u.Path, "/"))
	}
	return nil, errors.New("url: neither s3://bucket/prefix nor file:///directory")
}

// probeName is the object that [Probe] writes and deletes.
const probeName = "oncegate-probe"

// Probe writes an object, reads it and deletes it, and returns the first error.
func Probe(ctx context.Context, s Store) error {
	content := []byte("Oncegate examines whether it can write, read and delete here.\n")
	if err := s.Put(ctx, probeName, content); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	got, err := s.Read(ctx, probeName, 0, int64(len(content)))
	switch {
	case err != nil:
		return fmt.Errorf("reading: %w", err)
	case !bytes.Equal(got, content):
		return errors.New("reading: other bytes than were written")
	}
	if err := s.Delete(ctx, probeName); err != nil {
		return fmt.Errorf("deleting: %w", err)
	}
	if _, err := s.Read(ctx, probeName, 0, 1); !errors.Is(err, ErrNotExist) {
		return errors.New("deleting: the object is still there")
	}
	return nil
}
