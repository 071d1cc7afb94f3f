package row_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// asked is a group of asks as it was run, and when.
type asked struct {
	at time.Duration
	n  int
}

// groupsOf runs what ask does against a grouped that takes 1 ms for a group of at most
// size, 10 ms apart, and gives the groups there were. Its time is not the world's.
func groupsOf(t *testing.T, size int, ask func(do func())) (groups []asked) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		began := time.Now()
		group := row.Group[int, int]{Size: size, Flushers: 1, Apart: 10 * time.Millisecond, Timeout: time.Second, Run: func(_ context.Context, in []int) ([]int, error) {
			groups = append(groups, asked{time.Since(began), len(in)})
			<-time.After(time.Millisecond)
			return in, nil
		}}
		var all sync.WaitGroup
		ask(func() {
			all.Go(func() {
				if _, err := group.Do(t.Context(), 1); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		})
		all.Wait()
		<-time.After(time.Second) // a flusher may rest
	})
	return groups
}

func same(t *testing.T, got, want []asked) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("groups %v, want %v", got, want)
	}
}

func TestWhoComesAloneWaitsForNobody(t *testing.T) {
	t.Parallel()
	got := groupsOf(t, 100, func(do func()) {
		for range 3 {
			do()
			<-time.After(time.Millisecond)
		}
	})
	same(t, got, []asked{{0, 1}, {time.Millisecond, 1}, {2 * time.Millisecond, 1}})
}

func TestGroupsOfSeveralAreApart(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	got := groupsOf(t, 100, func(do func()) {
		do()
		<-time.After(ms / 4)
		for range 40 { // two a millisecond
			do()
			<-time.After(ms / 2)
		}
	})
	// The first is alone, and what comes meanwhile is the first of several.
	same(t, got, []asked{{0, 1}, {ms, 2}, {11 * ms, 20}, {21 * ms, 18}})
}

// Who comes on the heels of several waits for what is left of their time, and no longer.
func TestWhoFollowsSeveralWaits(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	got := groupsOf(t, 100, func(do func()) {
		for range 3 {
			do()
		}
		for range 2 {
			<-time.After(5 * ms)
			do()
		}
		<-time.After(5 * ms)
		do()
	})
	same(t, got, []asked{{0, 1}, {ms, 2}, {11 * ms, 2}, {21 * ms, 1}})
}

func TestAFullGroupDoesNotWait(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	got := groupsOf(t, 4, func(do func()) {
		for range 1 + 3*4 {
			do()
		}
	})
	same(t, got, []asked{{0, 1}, {ms, 4}, {2 * ms, 4}, {3 * ms, 4}})
}
