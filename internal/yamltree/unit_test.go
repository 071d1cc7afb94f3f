package yamltree_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/yamltree"
)

func TestUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90d": 90 * 24 * time.Hour, "10s": 10 * time.Second, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "2w": 336 * time.Hour,
		"1.5m": 90 * time.Second, "0.5h30s": 30*time.Minute + 30*time.Second, "0.25d": 6 * time.Hour, "1h0m0s": time.Hour, "0s": 0,
	} {
		if got, err := yamltree.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "10", "s", "-1s", "1.h", ".5h", "1.5.2h", "1e3s", "0.3ms", "+1s", "1,5h", "1 h", "1y", "99999999999999w", "9223372036854775807d"} {
		if got, err := yamltree.ParseDuration(text); err == nil {
			t.Errorf("%q was taken as %s", text, got)
		}
	}
	for text, want := range map[string]int64{"512": 512, "1B": 1, "64KiB": 65536, "1MiB": 1 << 20, "2MB": 2000000} {
		if got, err := yamltree.ParseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "9999999999999GiB", "1 XB"} {
		if got, err := yamltree.ParseSize(text); err == nil {
			t.Errorf("%q was taken as %d", text, got)
		}
	}
}
