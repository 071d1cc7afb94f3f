package cli

import (
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The limit follows the container's, so that a small one is not killed for the garbage in it and a large one collects it less often.
func TestGoLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		container uint64
		err       error
		from, to  int64 // MiB
	}{
		{0, memlimit.ErrNoLimit, 208, 208}, {0, memlimit.ErrCgroupsNotSupported, 208, 208},
		{128 << 20, nil, 96, 104}, {1 << 30, nil, 770, 820}, {64 << 30, nil, 50_000, 53_000},
	} {
		if got := goLimit(c.container, c.err) >> 20; got < c.from || got > c.to {
			t.Errorf("%d MiB, %v: %d MiB, want from %d to %d", c.container>>20, c.err, got, c.from, c.to)
		}
	}
}
