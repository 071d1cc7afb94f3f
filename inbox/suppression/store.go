package suppression

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Config configures a [Store]. Pool is required.
type Config struct {
	Pool *pgxpool.Pool

	// Keyring seals addresses and the secret under which they are hashed. nil stores addresses in plain, under plain hashes.
	Keyring *seal.Keyring

	// HashOnly keeps the digest of an address and not the address. Entries that are there keep what they have.
	HashOnly bool

	// ListBudget is how long a list is searched before it answers with what it has; 0 is [read.ListBudget].
	ListBudget time.Duration

	// Now is the time by which new entries are made. It defaults to time.Now. Whether an entry has expired is decided by the
	// database's clock.
	Now func() time.Time
}

// Store keeps suppressed addresses.
type Store struct {
	cfg   Config
	looks row.Group[look, *Row]

	mu      sync.Mutex
	secrets []inbox.InstallationSecret // those that could be opened
}

// New makes a Store.
func New(cfg Config) (*Store, error) {
	if cfg.Pool == nil {
		return nil, errors.New("suppression: a pool is required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Store{cfg: cfg}
	s.looks = row.Group[look, *Row]{Run: s.lookUp, Size: 256, Flushers: 1, Timeout: 10 * time.Second}
	return s, nil
}

// known returns the secrets that this process has opened.
func (s *Store) known() []inbox.InstallationSecret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.secrets)
}

// learn reads the secrets that are not known yet, and returns the ids of those that cannot be opened with the error of
// the first. It also finds a secret that another process has just made.
func (s *Store) learn(ctx context.Context, db row.Querier) (closed []inbox.ID, why error, err error) { //nolint:revive // two errors: why not, and whether it worked
	known := s.known()
	ids := make([]inbox.ID, len(known))
	for i := range known {
		ids[i] = known[i].ID
	}
	read, err := inbox.InstallationSecrets(ctx, db, s.cfg.Keyring, ids)
	if err != nil {
		return nil, nil, err
	}
	for _, secret := range read {
		if secret.Err != nil {
			closed = append(closed, secret.ID)
			if why == nil {
				why = secret.Err
			}
			continue
		}
		s.remember(secret)
	}
	return closed, why, nil
}

func (s *Store) remember(secret inbox.InstallationSecret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.secrets {
		if s.secrets[i].ID == secret.ID {
			return
		}
	}
	s.secrets = append(s.secrets, secret)
}

// digests returns all digests under which an address in normal form may be stored.
func (s *Store) digests(normal string) [][]byte {
	out := [][]byte{digestOf(nil, normal)}
	for _, secret := range s.known() {
		out = append(out, digestOf(secret.Value, normal))
	}
	return out
}

// errClosed is for entries under a secret that this process cannot open, so that it is unknown whether an address is
// among them.
func errClosed(why error) error {
	return fmt.Errorf("suppressed addresses are hashed under a secret that cannot be opened here: %w", why)
}
