package jobs_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// behindFor are standbys of which the process learns, in so many of the first questions, that one of them was promoted.
type behindFor struct {
	mu       sync.Mutex
	times    int
	asked    []uint64 // the places in the log
	received func()
}

func (*behindFor) Timeline() uint32 { return 7 }

func (s *behindFor) Received(_ context.Context, timeline uint32, lsn uint64, within time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, lsn)
	s.received()
	if timeline != 7 || within <= 0 || len(s.asked) <= s.times {
		return session.ErrBehind
	}
	return nil
}

// TestASendWaitsForStandbys sends nothing to a target that cannot deduplicate before the standbys have received the effect.
func TestASendWaitsForStandbys(t *testing.T) {
	t.Parallel()
	for route, want := range map[string]int{once: 3, repeatable: 0} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := &sink{idempotent: route == repeatable, render: func(*effect.Call) ([]byte, error) { return []byte("rendered"), nil }}
			standbys := &behindFor{times: 2}
			standbys.received = func() {
				if s.calls.Load() != 0 {
					t.Error("it was sent before")
				}
			}
			b.standbys = standbys
			id := b.admit(route, 1)[0]
			recorded := uint64(b.count(`SELECT pg_current_wal_insert_lsn() - '0/0'`))
			b.client(jobs.Config{Senders: senders(s)})
			b.eventuallyState(id, inbox.EffectDone)
			standbys.mu.Lock()
			defer standbys.mu.Unlock()
			if got := s.got(id); got != 1 || len(standbys.asked) != want || b.row(id).Attempts != 1 {
				t.Errorf("sent %d times after %d questions in %d attempts, want once after %d in one", got, len(standbys.asked), b.row(id).Attempts, want)
			}
			for _, lsn := range standbys.asked {
				if lsn <= recorded {
					t.Errorf("the standbys are asked for %s, and the effect was recorded at %s", session.FormatLSN(lsn), session.FormatLSN(recorded))
				}
			}
		})
	}
}

// TestNothingIsSentOfAFormerPrimary leaves the claim to its lease if the start was recorded on a former primary.
func TestNothingIsSentOfAFormerPrimary(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.standbys = &behindFor{times: 1, received: func() {}}
	store := b.store("node-1")
	claim := b.claim(store, b.admit(once, 1)[0])
	mine, err := store.StartSend(t.Context(), claim, inbox.SendStart{Began: true})
	if mine || !errors.Is(err, session.ErrBehind) {
		t.Errorf("mine %t, %v; want an error", mine, err)
	}
}
