package receiver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/receiver"
)

// What is reserved for small bodies, large ones do not get, however fast they are.
func TestSmallBodiesHaveAReserve(t *testing.T) {
	t.Parallel()
	a := attack(t, func(cfg *receiver.Config) {
		cfg.BodyBytes, cfg.PeerBodyBytes = 512<<10+32<<10, 1<<20
		cfg.SmallBody, cfg.SmallBodyReserve = 16<<10, 128<<10
	})
	for n := range 6 {
		a.stall(t, "shop", fmt.Sprint("192.0.2.", n), maxBody, 33<<10)
	}
	if held := a.held(t); held != 6*64<<10 {
		t.Fatalf("%d bytes are held, want all but the reserve", held)
	}
	if status := a.deliver(t, "shop", "198.51.100.1", 60<<10); status != shed {
		t.Errorf("a large body, when only the reserve is left: %s", status)
	}
	for range 3 {
		if status := a.deliver(t, "shop", "198.51.100.1", 12<<10); status != accepted {
			t.Errorf("a small body, when only the reserve is left: %s", status)
		}
	}
}

// What is reserved for a source, another one does not get.
func TestEachSourceHasAReserve(t *testing.T) {
	t.Parallel()
	a := attack(t, func(cfg *receiver.Config) {
		cfg.BodyBytes, cfg.PeerBodyBytes, cfg.SourceReserve = 512<<10+32<<10, 1<<20, 128<<10
	})
	for n := range 6 {
		a.stall(t, "shop", fmt.Sprint("192.0.2.", n), maxBody, 33<<10)
	}
	if status := a.deliver(t, "shop", "198.51.100.1", 60<<10); status != shed {
		t.Errorf("another body of the source, when only the other's reserve is left: %s", status)
	}
	if status := a.deliver(t, "other", "198.51.100.1", 60<<10); status != accepted {
		t.Errorf("a body of the other source, whose reserve is left: %s", status)
	}
	// Within its reserve a source is not shed for others, slow as it may be.
	one := a.stall(t, "other", "192.0.2.9", maxBody, 33<<10)
	a.passed.Add(int64(time.Minute))
	if status := a.deliver(t, "shop", "198.51.100.1", 60<<10); status != accepted {
		t.Errorf("a body of the source, when its slow ones can be shed: %s", status)
	}
	if status := one.finish(); status != accepted {
		t.Errorf("a slow body within the reserve of its source: %s", status)
	}
}

// One peer's bodies make room for each other and leave those of others alone.
func TestOnePeerDoesNotUseUpTheBudget(t *testing.T) {
	t.Parallel()
	a := attack(t, func(cfg *receiver.Config) { cfg.BodyBytes, cfg.PeerBodyBytes = 1<<20, 256<<10+32<<10 })
	slowest := a.stall(t, "shop", "2001:db8:1::1", maxBody, 1)
	a.passed.Add(int64(time.Minute))
	var own []*stalled
	for n := range 4 { // all of one network
		own = append(own, a.stall(t, "shop", fmt.Sprintf("2001:db8:2::%x", n+1), maxBody, 33<<10))
	}
	a.passed.Add(int64(time.Minute))
	if status := a.deliver(t, "shop", "2001:db8:2:0:ffff::1", 60<<10); status != accepted {
		t.Errorf("one more of the peer, when its slow ones can be shed: %s", status)
	}
	for n, one := range own {
		if status := one.status(); status != shed {
			t.Errorf("body %d of the peer: %s", n, status)
		}
	}
	if !slowest.waiting() {
		t.Errorf("the body of another peer was shed: %s", slowest.status())
	}
	if status := slowest.finish(); status != accepted {
		t.Errorf("the body of another peer: %s", status)
	}
}
