package fetch_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"github.com/oncegate/oncegate/providers/scheme"
)

// claimed is a document that a request from a client names.
func (s *store) claimed(name string, client netip.Addr) scheme.KeyRequest {
	want := s.want("/" + name)
	want.Claimed, want.Remote = true, client
	return want
}

// got fetches and reports whether it was put off.
func got(t *testing.T, from scheme.Fetcher, want scheme.KeyRequest) bool {
	t.Helper()
	text, err := from.Fetch(want)
	if _, deferred := errors.AsType[*scheme.Deferral](err); deferred {
		return false
	}
	if err != nil || text == nil {
		t.Fatal(err)
	}
	return true
}

// anywhere returns an address in a different network for each number.
func anywhere(n int) netip.Addr { return netip.AddrFrom4([4]byte{100, byte(n >> 8), byte(n), 1}) }

// TestBudget checks the limits for new documents in a minute: a third of the rate for a source, a
// third of that for a network of clients, and four times the rate for all sources together. A
// minute later the same amounts are available again.
func TestBudget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sources int
		client  func(n int) netip.Addr
		want    int64
	}{
		"one source, everywhere":  {1, anywhere, 10},
		"one source, one network": {1, func(n int) netip.Addr { return netip.AddrFrom4([4]byte{100, 1, 1, byte(n)}) }, 3},
		"one source, one IPv6 /48": {1, func(n int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, byte(n), byte(n >> 8)})
		}, 3},
		"one source, unknown":      {1, func(int) netip.Addr { return netip.Addr{} }, 3},
		"many sources, everywhere": {50, anywhere, 120},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, cfg := open(t)
			f := fetcher(t, cfg)
			for minute := range int64(3) {
				for n := range 5000 {
					got(t, f.Source(fmt.Sprint(n%c.sources)), s.claimed(fmt.Sprint(minute, "-", n), c.client(n)))
				}
				if n := s.asked.Load(); n != c.want*(minute+1) {
					t.Errorf("asked %d times after %d minutes, want %d", n, minute+1, c.want*(minute+1))
				}
				s.now.Add(60)
			}
			if stats := f.Stats(); stats.Budget != 3*(5000-uint64(c.want)) || stats.Unproven.Got != 3*uint64(c.want) {
				t.Errorf("%+v", stats)
			}
		})
	}
}

// However many sources are flooded, another one learns a new key at the second delivery
// that names it.
func TestFloodsOfOthersCostNoKey(t *testing.T) {
	t.Parallel()
	s, cfg := open(t)
	f := fetcher(t, cfg)
	for n := range 5000 {
		got(t, f.Source(fmt.Sprint("flooded ", n%50)), s.claimed(fmt.Sprint(n), anywhere(n)))
	}
	shop := f.Source("shop")
	if got(t, shop, s.claimed("new", anywhere(1))) {
		t.Fatal("the budget of all sources is not used up")
	}
	if !got(t, shop, s.claimed("new", anywhere(1))) {
		t.Error("put off twice")
	}
}

// TestNearbyClientsHaveTheirOwn checks that forgers who repeat each document from many networks
// exhaust only the lane for repeated requests. A client in a network that has sent an authentic
// request is still served, and no other.
func TestNearbyClientsHaveTheirOwn(t *testing.T) {
	t.Parallel()
	s, cfg := open(t)
	shop := fetcher(t, cfg).Source("shop")
	client, near, far := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("198.51.100.200"), netip.MustParseAddr("198.51.101.7")
	before := s.claimed("before", client)
	if !got(t, shop, before) {
		t.Fatal("put off")
	}
	shop.Confirm(before)
	for n := range 1000 {
		for range 3 {
			got(t, shop, s.claimed(fmt.Sprint("forged ", n), anywhere(n)))
		}
	}
	if got(t, shop, s.claimed("new, from afar", far)) {
		t.Error("the budget is not used up")
	}
	if !got(t, shop, s.claimed("new", near)) {
		t.Error("a client near a known one is put off")
	}
	s.now.Add(24*3600 + 1)
	for n := range 1000 {
		for range 3 {
			got(t, shop, s.claimed(fmt.Sprint("forged later ", n), anywhere(n)))
		}
	}
	if got(t, shop, s.claimed("newer", near)) {
		t.Error("a client is known for ever")
	}
}

// An address that has verified something has no budget, however much it is renewed.
func TestWhatIsProvenHasNoBudget(t *testing.T) {
	t.Parallel()
	s, cfg := open(t)
	f := fetcher(t, cfg)
	want := s.claimed("genuine", anywhere(1))
	got(t, f, want)
	f.Confirm(want)
	for n := range 1000 {
		got(t, f, s.claimed(fmt.Sprint("forged ", n), anywhere(n)))
	}
	s.says(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("new")) })
	s.now.Add(25 * 3600) // so old that it is asked for before it is used
	for n := range 1000 {
		got(t, f, s.claimed(fmt.Sprint("forged later ", n), anywhere(n)))
	}
	if text, err := f.Fetch(want); err != nil || string(text) != "new" {
		t.Errorf("%q %v", text, err)
	}
}

// TestHeld checks that a request for a cached copy returns it and fetches nothing.
func TestHeld(t *testing.T) {
	t.Parallel()
	s, cfg := open(t)
	f := fetcher(t, cfg)
	want := s.claimed("key", anywhere(1))
	held := want
	held.Held = true
	if _, err := f.Fetch(held); !errors.Is(err, scheme.ErrNotHeld) {
		t.Errorf("%v", err)
	}
	got(t, f, want)
	s.now.Add(25 * 3600)
	if text, err := f.Fetch(held); err != nil || string(text) != "keys" {
		t.Errorf("%q %v", text, err)
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
