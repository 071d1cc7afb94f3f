package objectstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket is a store in a bucket of an S3-compatible store.
type bucket struct {
	client       *minio.Client
	name, prefix string
}

// tries is how often one request is made. Every caller tries again later, so a few are enough.
const tries = 3

func newBucket(cfg Config, name, prefix string) (*bucket, error) {
	if (cfg.AccessKey == "") != (cfg.SecretKey == "") {
		return nil, errors.New("access_key and secret_key: set both, or neither to use the role of the machine")
	}
	endpoint, err := url.Parse(cmp.Or(cfg.Endpoint, "https://s3.amazonaws.com"))
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "https" && endpoint.Scheme != "http" || endpoint.Path != "" && endpoint.Path != "/" || endpoint.User != nil {
		return nil, errors.New("endpoint: not an address such as https://s3.example.com")
	}
	account := credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, "")
	if cfg.AccessKey == "" {
		account = credentials.NewIAM("")
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: account, Secure: endpoint.Scheme == "https", Region: cmp.Or(cfg.Region, "us-east-1"), MaxRetries: tries,
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	return &bucket{client: client, name: name, prefix: prefix}, nil
}

func (b *bucket) String() string { return "s3://" + path.Join(b.name, b.prefix) }

func (b *bucket) key(name string) string { return path.Join(b.prefix, name) }

// Put implements [Store]. The store compares the content with its MD5 before it answers, and a second request reads back what
// it has under the name.
func (b *bucket) Put(ctx context.Context, name string, content []byte) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	put, err := b.client.PutObject(ctx, b.name, b.key(name), bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{
		ContentType: "application/octet-stream", SendContentMd5: true, DisableMultipart: true,
	})
	if err != nil {
		return err
	}
	got, err := b.client.StatObject(ctx, b.name, b.key(name), minio.StatObjectOptions{})
	if err == nil && (got.Size != int64(len(content)) || got.ETag != put.ETag) {
		err = ErrCut
	}
	return err
}

// Read implements [Store].
func (b *bucket) Read(ctx context.Context, name string, offset, length int64) (_ []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var options minio.GetObjectOptions
	if err := options.SetRange(offset, offset+length-1); err != nil {
		return nil, err
	}
	object, err := b.client.GetObject(ctx, b.name, b.key(name), options)
	if err != nil {
		return nil, known(err)
	}
	defer func() { _ = object.Close() }()
	out := make([]byte, length)
	if _, err := io.ReadFull(object, out); err != nil {
		return nil, known(err)
	}
	return out, nil
}

// known turns the errors of the client that mean something to callers into ours.
func known(err error) error {
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == minio.NoSuchKey:
		return ErrNotExist
	case answer.Code == "InvalidRange", errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrCut
	}
	return err
}

// Delete implements [Store].
func (b *bucket) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := known(b.client.RemoveObject(ctx, b.name, b.key(name), minio.RemoveObjectOptions{})); !errors.Is(err, ErrNotExist) {
		return err
	}
	return nil
}

// Keeps implements [Store]. Objects under a lock of the bucket are versioned too.
func (b *bucket) Keeps(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := b.client.GetBucketVersioning(ctx, b.name)
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented {
		return "", nil // a store without versions
	}
	if err != nil {
		return "", err
	}
	if got.Status != "" {
		return fmt.Sprintf("versioning of the bucket is %s, and keeps versions of deleted objects", got.Status), nil
	}
	return "", nil
}
