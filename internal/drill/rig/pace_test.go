package rig_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Every number is sent once, and none before it is due.
func TestPaceSendsEachNumberOnce(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var mu sync.Mutex
	var sent []int
	rig.Pace{PerSecond: 200, Length: 250 * time.Millisecond, Senders: 4}.Run(t.Context(), began, func(n int, due time.Time) {
		early := time.Until(due)
		mu.Lock()
		defer mu.Unlock()
		if sent = append(sent, n); early > 0 || due.Sub(began) != time.Duration(n)*5*time.Millisecond {
			t.Errorf("%d was due %s after the beginning, and sent %s before that", n, due.Sub(began), early)
		}
	})
	slices.Sort(sent)
	want := make([]int, 50)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(sent, want) {
		t.Errorf("sent %v, want 0 to 49", sent)
	}
}

// SendEach sends everything, or returns the first error and stops.
func TestSendEach(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	sent := map[int]int{}
	err := rig.SendEach(t.Context(), 100, 7, func(_ context.Context, n int) error {
		mu.Lock()
		defer mu.Unlock()
		sent[n]++
		return nil
	})
	if err != nil || len(sent) != 100 || sent[0] != 1 || sent[99] != 1 {
		t.Errorf("%d of 100 were sent, %v", len(sent), err)
	}
	refused := errors.New("refused")
	calls := 0
	err = rig.SendEach(t.Context(), 1_000_000, 1, func(_ context.Context, n int) error {
		if calls++; n == 3 {
			return refused
		}
		return nil
	})
	if !errors.Is(err, refused) || calls != 4 {
		t.Errorf("%d calls and %v, want 4 and the refusal", calls, err)
	}
}
