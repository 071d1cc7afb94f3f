package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// noteKey is the only key of the bucket.
const noteKey = "note"

// bucket returns the bucket of the stream's note. A bucket is a stream of its own.
func (s *Stream) bucket() string { return s.cfg.Name + "-note" }

// Keep stores a small text with the stream's servers, in place of the one before.
func (s *Stream) Keep(ctx context.Context, note []byte) error {
	_, js, _, err := s.opened()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	kv, err := js.KeyValue(ctx, s.bucket())
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: s.bucket(), Description: "oncegate: what was started last", History: 1, Replicas: s.cfg.Replicas})
		if errors.Is(err, jetstream.ErrBucketExists) { // another process has just made it
			kv, err = js.KeyValue(ctx, s.bucket())
		}
	}
	if err != nil {
		return fmt.Errorf("opening bucket %s: %w", s.bucket(), err)
	}
	if _, err := kv.Put(ctx, noteKey, note); err != nil {
		return fmt.Errorf("writing to bucket %s: %w", s.bucket(), err)
	}
	return nil
}

// Kept returns the text that was stored last, or nil if there is none.
func (s *Stream) Kept(ctx context.Context) ([]byte, error) {
	_, js, _, err := s.opened()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	kv, err := js.KeyValue(ctx, s.bucket())
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening bucket %s: %w", s.bucket(), err)
	}
	entry, err := kv.Get(ctx, noteKey)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading bucket %s: %w", s.bucket(), err)
	}
	return entry.Value(), nil
}
