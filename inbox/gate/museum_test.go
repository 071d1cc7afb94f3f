package gate_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// TestMuseum shows that the suite can fail: each gate of the museum is wrong in
// one known way, and the test meant for that must say so.
func TestMuseum(t *testing.T) {
	t.Parallel()
	for _, piece := range inboxtest.Museum() {
		t.Run(piece.Name, func(t *testing.T) {
			t.Parallel()
			failures := inboxtest.Record(t, func(tb testing.TB) {
				tb.Helper()
				inboxtest.Exercise(tb, piece.Test, storetest.Queue, piece.Make)
			})
			if all := strings.Join(failures, "\n"); !strings.Contains(all, piece.Says) {
				t.Errorf("the suite passed a gate that is known to be wrong: want %q, its failures were:\n%s", piece.Says, all)
			}
		})
	}
}

// TestMuseumSkeleton shows that what fails in the museum are the flaws: without
// one, its gate passes.
func TestMuseumSkeleton(t *testing.T) {
	t.Parallel()
	for _, name := range inboxtest.TestNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inboxtest.Exercise(t, name, storetest.Queue, inboxtest.Flawless)
		})
	}
}
