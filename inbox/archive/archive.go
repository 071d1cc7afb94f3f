package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/seal"
)

// Store is where the objects are. Package objectstore implements it.
type Store interface {
	Put(ctx context.Context, name string, content []byte) error
	Read(ctx context.Context, name string, offset, length int64) ([]byte, error)
	Delete(ctx context.Context, name string) error
}

// Config configures an [Archive]. Pool is required.
type Config struct {
	// Pool is the database with the rows of the objects. A writer uses two of its connections at once.
	Pool *pgxpool.Pool

	// Store is where the objects are. Nil means that the configuration names no archive: nothing is written, and content that an
	// archive has cannot be reached ([ErrUnconfigured]).
	Store Store

	// Classes are the retention classes whose bodies are archived. Empty means all.
	Classes []string

	// Keyring opens and seals lines; nil where nothing is sealed.
	Keyring *seal.Keyring

	// IsMissing says of an error of Store that the object does not exist.
	IsMissing func(error) bool

	// Logger defaults to discarding.
	Logger *slog.Logger

	// Now is the clock by which a store that failed is left alone. It defaults to time.Now.
	Now func() time.Time
}

// Archive writes and reads objects. A nil Archive archives nothing and has nothing.
type Archive struct {
	cfg   Config
	codec *codec
	cache cache

	mu       sync.Mutex
	failure  error // of the last request, until failedTo
	failedTo time.Time
}

// New makes an Archive.
func New(cfg Config) (*Archive, error) {
	if cfg.Pool == nil {
		return nil, errors.New("archive: Pool is required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.IsMissing == nil {
		cfg.IsMissing = func(error) bool { return false }
	}
	codec, err := newCodec()
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &Archive{cfg: cfg, codec: codec}, nil
}

// Configured reports whether the archive takes bodies.
func (a *Archive) Configured() bool { return a != nil && a.cfg.Store != nil }

var (
	// ErrUnconfigured means that the archive has the content, and that the configuration of this process names no archive.
	ErrUnconfigured = errors.New("the content is in the archive, and the configuration names none: set archive.url")

	// ErrNotArchived means that the archive does not have the body.
	ErrNotArchived = errors.New("the archive does not have the body")

	// ErrMismatch means that the archived body has not the hash that the event's row has.
	ErrMismatch = fmt.Errorf("%w: the body has not the hash of the event", ErrDamaged)
)

// UnavailableError means that the store did not do what it was asked, and may do it later.
type UnavailableError struct{ Err error }

// Error implements error.
func (e *UnavailableError) Error() string { return "the archive does not answer: " + e.Err.Error() }

// Unwrap returns the store's error, unless that is the end of its time, which callers would take for the end of their own.
func (e *UnavailableError) Unwrap() error {
	if errors.Is(e.Err, context.DeadlineExceeded) {
		return nil
	}
	return e.Err
}

// IsUnavailable reports whether a later try may succeed: the store failed, or another process has the configuration that this one
// lacks.
func IsUnavailable(err error) bool {
	_, failed := errors.AsType[*UnavailableError](err)
	return failed || errors.Is(err, ErrUnconfigured)
}

// restAfterFailure is how long reads fail at once after a request failed, so that a thousand effects do not wait for a thousand
// timeouts.
const restAfterFailure = 5 * time.Second

// read reads a range of an object.
func (a *Archive) read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if a.cfg.Store == nil {
		return nil, ErrUnconfigured
	}
	a.mu.Lock()
	failure := a.failure
	if !a.cfg.Now().Before(a.failedTo) {
		failure = nil
	}
	a.mu.Unlock()
	if failure != nil {
		return nil, failure
	}
	out, err := a.cfg.Store.Read(ctx, name, offset, length)
	if err == nil || a.cfg.IsMissing(err) {
		return out, err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, &UnavailableError{err}
	}
	err = &UnavailableError{err}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure, a.failedTo = err, a.cfg.Now().Add(restAfterFailure)
	return nil, err
}
