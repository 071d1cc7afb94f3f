package rig_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Whoever waits learns whether the condition failed, the time was over or the campaign was ended: only the second is a
// finding.
func TestUntilTellsWhyItGaveUp(t *testing.T) {
	t.Parallel()
	never := func() (bool, error) { return false, nil }
	err := rig.Until(t.Context(), 30*time.Millisecond, "nothing", never)
	if !errors.Is(err, rig.ErrTimeout) || !strings.Contains(err.Error(), "waiting for nothing") {
		t.Errorf("after its time: %v", err)
	}
	broken := errors.New("broken")
	if err := rig.Until(t.Context(), time.Hour, "nothing", func() (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("with an error: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := rig.Until(ended, time.Hour, "nothing", never); !errors.Is(err, context.Canceled) || errors.Is(err, rig.ErrTimeout) {
		t.Errorf("after the end of the campaign: %v", err)
	}
	asked := 0
	if err := rig.Until(t.Context(), time.Hour, "the third question", func() (bool, error) { asked++; return asked == 3, nil }); err != nil || asked != 3 {
		t.Errorf("asked %d times, %v; want 3", asked, err)
	}
}
