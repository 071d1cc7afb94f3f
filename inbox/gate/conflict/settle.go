// Package conflict decides about events whose key was recorded with other bytes: whether they are duplicates, because both
// payloads mean the same, or conflicts, whose payload is kept in the table conflict for a person.
//
// [gate.Gate] calls a [Settler] after the commit, outside the group, and before it answers.
package conflict

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Payload is an event that was delivered under a recorded key, with other bytes than the recorded ones.
type Payload struct {
	// Admission is the delivery, and Item the index of the event in its Events.
	Admission *inbox.Admission
	Item      int

	// EventID is the id under which the event is looked up. An unusable event has another one than its sender said.
	EventID string

	// SHA is the SHA-256 of the event's bytes.
	SHA [sha256.Size]byte

	// Recorded is the event that has the key.
	Recorded inbox.ID
}

func (p *Payload) event() *inbox.NewEvent { return &p.Admission.Events[p.Item] }

// atOnce bounds how many payloads are compared at the same time.
const atOnce = 2

// Settler compares payloads and keeps those that conflict.
type Settler struct {
	pool      *pgxpool.Pool
	keyring   *seal.Keyring
	secret    inbox.InstallationSecret
	clock     *inbox.Clock
	turn      chan struct{}
	displaced atomic.Uint64
}

// New makes a settler, which takes at most two connections of the pool at once. keyring may be nil. secret is the one under
// which hashes are stored.
func New(pool *pgxpool.Pool, keyring *seal.Keyring, secret inbox.InstallationSecret, clock *inbox.Clock) *Settler {
	return &Settler{pool: pool, keyring: keyring, secret: secret, clock: clock, turn: make(chan struct{}, atOnce)}
}

// Displaced counts the kept payloads that made room for newer ones of their event.
func (s *Settler) Displaced() uint64 { return s.displaced.Load() }

// Settle compares a payload with the recorded one. If both have the same canonical form, or one of them is from the
// sender's list, out stays a duplicate. Otherwise Settle keeps the payload and makes out a conflict.
func (s *Settler) Settle(ctx context.Context, p *Payload, out *inbox.ItemReceipt) error {
	if p.Admission.Reconciled {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return fmt.Errorf("comparing %s/%s: too many conflicts at once", p.Admission.Source.Name, s.secret.Logged(p.EventID))
	}
	d, err := s.compare(ctx, p)
	if err != nil {
		return fmt.Errorf("comparing %s/%s: %s", p.Admission.Source.Name, s.secret.Logged(p.EventID), row.ErrorText(err))
	}
	if d == nil {
		return nil
	}
	if err := s.keep(ctx, p, d); err != nil {
		return fmt.Errorf("keeping the conflicting payload of %s/%s: %s", p.Admission.Source.Name, s.secret.Logged(p.EventID), row.ErrorText(err))
	}
	out.Outcome, out.Paths, out.Original, out.OriginalGone = inbox.Conflict, d.paths, d.original, d.gone
	return nil
}
