package providers_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// crowd is where the requests of a flood come from.
type crowd struct {
	genuine netip.Addr
	forged  func(n int) netip.Addr
	times   int  // how often each forgery is sent
	known   bool // the sender has delivered before the flood
}

// TestFloodOfUnknownKeys lets a client without a key send a hundred forgeries a second for an hour,
// each of which names a new key. At the same time a genuine sender delivers every ten seconds,
// retries what was not accepted, and changes to a new key halfway. The test requires that all
// genuine deliveries verify, those with a known key at once, that a new key is fetched within a
// minute, and that the requests to the key store stay within the budget. Some floods last only four
// minutes, because nothing changes after that.
func TestFloodOfUnknownKeys(t *testing.T) {
	t.Parallel()
	one := netip.MustParseAddr("198.51.100.7")
	spread := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{100, byte(n >> 8), byte(n), 1}) }
	crowds := map[string]crowd{
		"clients unknown":     {forged: func(int) netip.Addr { return netip.Addr{} }, times: 1},
		"one network":         {genuine: one, forged: func(int) netip.Addr { return one }, times: 1},
		"everywhere":          {genuine: one, forged: spread, times: 1},
		"everywhere, repeats": {genuine: one, forged: spread, times: 5, known: true},
	}
	if testing.Short() {
		crowds = map[string]crowd{"everywhere": crowds["everywhere"]}
	}
	for where, c := range crowds {
		for name, open := range signers {
			t.Run(name+"/"+where, func(t *testing.T) {
				t.Parallel()
				length := 4 * time.Minute
				if where == "everywhere" && name == "amazon-sns" && !testing.Short() {
					length = time.Hour
				}
				flood(t, open, c, length)
			})
		}
	}
}

func flood(t *testing.T, open func(t *testing.T, p *publisher) *signer, c crowd, length time.Duration) {
	t.Helper()
	p := publish(t)
	s := open(t, p)
	s.rotate()
	provider := s.bind(t, p)
	const (
		rate  = 100
		every = 10
	)
	seconds := int(length / time.Second)
	type delivery struct {
		request providers.Request
		sent    time.Time
	}
	var waiting []delivery
	verified, putOff := 0, 0
	var longest time.Duration
	forgeries := 0
	if c.known {
		first := s.genuine("evt-before", noon)
		first.Remote = c.genuine
		if _, err := provider.Verify(&first, s.secrets); err != nil {
			t.Fatal(err)
		}
	}
	for second := range seconds {
		at := noon.Add(time.Duration(second) * time.Second)
		for i := range rate {
			at := at.Add(time.Duration(i) * time.Second / rate)
			p.now.Store(at.UnixMilli())
			r := s.forged(forgeries/c.times, at)
			r.Remote = c.forged(forgeries)
			forgeries++
			if _, err := provider.Verify(&r, s.secrets); err == nil {
				t.Fatal("a forgery verifies")
			}
		}
		if second == seconds/2 {
			s.rotate()
		}
		if second%every == 0 {
			waiting = append(waiting, delivery{s.genuine(fmt.Sprintf("evt-%d", second), at), at})
		}
		rest := waiting[:0]
		for _, d := range waiting {
			if second%every != 0 {
				rest = append(rest, d)
				continue
			}
			d.request.Remote = c.genuine
			_, err := provider.Verify(&d.request, s.secrets)
			if _, refused := errors.AsType[*providers.Refusal](err); refused {
				t.Fatalf("second %d: a genuine delivery is refused: %v", second, err)
			}
			if err != nil {
				putOff++
				rest = append(rest, d)
				continue
			}
			verified++
			longest = max(longest, at.Sub(d.sent))
		}
		waiting = rest
	}
	t.Logf("%d forgeries; %d genuine deliveries verified, %d attempts put off, the longest for %s; %d requests for keys", forgeries, verified, putOff, longest, p.asked.Load())
	if len(waiting) > 0 || verified != seconds/every {
		t.Errorf("%d of %d genuine deliveries verified, %d wait", verified, seconds/every, len(waiting))
	}
	if longest > time.Minute {
		t.Errorf("a new key was learnt after %s", longest)
	}
	if n, most := p.asked.Load(), int64(31*(seconds/60+1)); n > most {
		t.Errorf("%d requests for keys in %s, want at most %d", n, length, most)
	}
}
