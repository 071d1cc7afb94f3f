package receiver_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// What a sender announces is not charged, only what it has sent.
func TestMemoryIsChargedAsBytesArrive(t *testing.T) {
	t.Parallel()
	a := attack(t, func(*receiver.Config) {})
	for _, announced := range []string{fmt.Sprint("Content-Length: ", maxBody), "Transfer-Encoding: chunked"} {
		before := a.held(t)
		one := a.stall(t, "shop", "192.0.2.1", maxBody, 1, announced)
		if held := a.held(t) - before; held != 4<<10 {
			t.Errorf("%s: %d bytes are charged for one that came, want a buffer of 4096", announced, held)
		}
		if status := one.finish(); status != accepted {
			t.Errorf("%s: %s", announced, status)
		}
	}
	for sent, most := range map[int]int64{5 << 10: 8 << 10, 20 << 10: 32 << 10, 40 << 10: 64 << 10} {
		before := a.held(t)
		one := a.stall(t, "shop", "192.0.2.1", maxBody, sent)
		if held := a.held(t) - before; held > most {
			t.Errorf("%d bytes are charged for %d, want %d", held, sent, most)
		}
		_ = one.finish()
	}
	if held := a.held(t); held != 0 {
		t.Errorf("%d bytes are held at rest", held)
	}
}

// A body is cut off when it has not come to the least rate after the grace, long before
// its timeout, however it is sent; one that is fast enough may take its time.
func TestTheLeastRate(t *testing.T) {
	t.Parallel()
	a := attack(t, func(cfg *receiver.Config) {
		cfg.LeastBodyRate, cfg.BodyGrace, cfg.SystemNow = 1<<10, 200*time.Millisecond, nil
	})
	fast := a.stall(t, "shop", "192.0.2.1", maxBody, 60<<10) // enough for a minute
	var slow []*stalled
	for _, announced := range []string{fmt.Sprint("Content-Length: ", maxBody), "Transfer-Encoding: chunked"} {
		slow = append(slow, a.stall(t, "shop", "192.0.2.1", maxBody, 1, announced))
	}
	for _, one := range slow {
		if status := one.status(); status != "408 Request Timeout" {
			t.Errorf("a slow body: %s", status)
		}
	}
	if !fast.waiting() {
		t.Error("a body that is fast enough was cut off")
	}
	if status := fast.finish(); status != accepted {
		t.Errorf("a body that is fast enough: %s", status)
	}
	if n := counted(t, a.registry, "oncegate_refusals_total", "slow"); n != 2 {
		t.Errorf("%v slow bodies counted, want 2", n)
	}
}

// When memory is used up, the slowest bodies make room, the slowest of all first; who
// comes and who is faster goes on.
func TestTheSlowestIsShedFirst(t *testing.T) {
	t.Parallel()
	a := attack(t, func(cfg *receiver.Config) { cfg.BodyBytes, cfg.PeerBodyBytes = 1<<20+32<<10, 2<<20 })
	var slow []*stalled
	for n := range 16 {
		// The later ones are faster: they had less time for as much.
		slow = append(slow, a.stall(t, "shop", fmt.Sprint("192.0.2.", n), maxBody, 33<<10))
		a.passed.Add(int64(time.Second))
	}
	if held := a.held(t); held != 1<<20 {
		t.Fatalf("%d bytes are held, want all", held)
	}
	if status := a.deliver(t, "shop", "198.51.100.1", 60<<10); status != accepted {
		t.Errorf("a good delivery beside slow bodies that hold all memory: %s", status)
	}
	for n, one := range slow[:4] { // 256 KiB are shed at once
		if status := one.status(); status != shed {
			t.Errorf("body %d, of the slowest: %s", n, status)
		}
	}
	for n, one := range slow[4:] {
		if !one.waiting() {
			t.Errorf("body %d was shed, and was not of the slowest: %s", n+4, one.status())
		}
		if status := one.finish(); status != accepted {
			t.Errorf("body %d, when its rest came: %s", n+4, status)
		}
	}
	if n := counted(t, a.registry, "oncegate_deliveries_total", "shed"); n != 4 {
		t.Errorf("%v shed bodies counted, want 4", n)
	}
}

// Of bodies that are about as fast none gives way, so that those that came first can end.
func TestEquallyFastBodiesDoNotShedEachOther(t *testing.T) {
	t.Parallel()
	a := attack(t, func(cfg *receiver.Config) { cfg.BodyBytes, cfg.PeerBodyBytes = 256<<10+32<<10, 1<<20 })
	var first []*stalled
	for n := range 4 {
		first = append(first, a.stall(t, "shop", fmt.Sprint("192.0.2.", n), maxBody, 33<<10))
	}
	if status := a.deliver(t, "shop", "198.51.100.1", 60<<10); status != shed {
		t.Errorf("one more, beside those that are as fast and hold all memory: %s", status)
	}
	for n, one := range first {
		if status := one.finish(); status != accepted {
			t.Errorf("body %d: %s", n, status)
		}
	}
}

// What a body waits for before it can be read is no slowness of its sender: a machine so busy that
// 20 ms pass between any two looks at the clock sheds slow bodies for it all the same.
func TestABusyMachineMakesNoSlowSender(t *testing.T) {
	t.Parallel()
	var a *attacked
	var busy atomic.Bool
	a = attack(t, func(cfg *receiver.Config) {
		cfg.BodyBytes, cfg.PeerBodyBytes = 256<<10, 1<<20
		still := cfg.SystemNow
		cfg.SystemNow = func() time.Time {
			if busy.Load() {
				a.passed.Add(int64(20 * time.Millisecond))
			}
			return still()
		}
	})
	// While a buffer grows, its body holds the smaller one as well: so the last ones are small.
	for n, sent := range []int{33 << 10, 33 << 10, 33 << 10, 17 << 10, 9 << 10, 5 << 10, 4000, 4000} {
		a.stall(t, "shop", fmt.Sprint("192.0.2.", n), maxBody, sent)
	}
	if held := a.held(t); held != 256<<10 {
		t.Fatalf("%d bytes are held, want all", held)
	}
	busy.Store(true)
	if status := a.deliver(t, "shop", "198.51.100.1", 2<<10); status != accepted {
		t.Errorf("a good delivery to a busy machine, beside slow bodies that hold all memory: %s", status)
	}
}

// The attack in small: slow bodies of every shape that would hold far more than there is.
// Every good delivery is taken at once, and nothing is left behind.
func TestSlowBodiesHurtNobody(t *testing.T) {
	t.Parallel()
	a := attack(t, func(cfg *receiver.Config) {
		cfg.BodyBytes, cfg.SourceReserve, cfg.SmallBodyReserve, cfg.PeerBodyBytes = 1<<20, 0, 0, 0
		cfg.SystemNow, cfg.BodyTimeout, cfg.LeastBodyRate, cfg.BodyGrace = nil, time.Minute, 1<<10, 20*time.Second
	})
	const slow = 240
	plain := strings.Repeat("x", maxBody)
	chunks := fmt.Sprintf("%x\r\n%s", maxBody, plain)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var senders sync.WaitGroup
	var bytesSent [slow]atomic.Int64
	var cutOff [slow]atomic.Bool
	for n := range slow {
		senders.Go(func() {
			conn := dial(t, a.address)
			defer conn.Close()
			body, lines := plain, []string{fmt.Sprint("Content-Length: ", maxBody)}
			if n%2 == 0 {
				body, lines = chunks, []string{"Transfer-Encoding: chunked"}
			}
			lines = append(lines, fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", n%7))
			senders.Go(func() { // an answer, or the end of the connection
				_, _ = conn.Read(make([]byte, 1))
				cutOff[n].Store(true)
			})
			sent := []int{40 << 10, 20 << 10, 5 << 10, 10}[n/2%4]
			_, _ = io.WriteString(conn, head(body, lines...)+body[:sent])
			bytesSent[n].Add(int64(sent))
			for at := sent; ctx.Err() == nil; at++ {
				if _, err := io.WriteString(conn, body[at%maxBody:at%maxBody+1]); err != nil {
					return // cut off
				}
				bytesSent[n].Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	// What has just arrived has arrived fast: the attack has begun when all of it has arrived or was
	// shed, and each body that is left has had some bytes more since.
	var since [slow]int64
	arrived := false
	inboxtest.Until(t, "the attack to begin", func() bool {
		var held int64
		complete, slower := true, arrived
		for n := range slow {
			sent := bytesSent[n].Load()
			complete = complete && sent > 0
			if !cutOff[n].Load() {
				held += charged(sent)
				slower = slower && sent >= since[n]+3
			}
		}
		switch {
		case !complete || a.held(t) != held:
			arrived = false
		case !arrived:
			arrived = true
			for n := range slow {
				since[n] = bytesSent[n].Load()
			}
		default:
			return slower
		}
		return false
	})
	for n := range 100 {
		if status := a.deliver(t, []string{"shop", "other"}[n%2], "198.51.100.1", 2<<10); status != accepted {
			t.Errorf("good delivery %d: %s", n, status)
		}
	}
	if held := a.held(t); held > 1<<20 {
		t.Errorf("bodies hold %d bytes, more than the budget", held)
	}
	cancel()
	senders.Wait()
	inboxtest.Until(t, "the memory to be given back", func() bool { return a.held(t) == 0 })
	if n := len(a.gate.admissions()); n != 100 {
		t.Errorf("%d deliveries reached the gate, want the good ones", n)
	}
	if status := a.deliver(t, "shop", "198.51.100.1", maxBody); status != accepted {
		t.Errorf("a large delivery after the attack: %s", status)
	}
}

// A server of the caller's may speak HTTP/2, where one connection carries many bodies:
// each is bounded by itself.
func TestBodiesInHTTP2(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := receiver.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(&fakeGate{}, newProvider())
	cfg.Metrics, cfg.BodyTimeout, cfg.BodyGrace = metrics, time.Hour, 300*time.Millisecond
	m := newMultiplexed(t, cfg)
	const streams = 40
	var slow sync.WaitGroup
	for range streams {
		slow.Go(func() {
			reader, writer := io.Pipe()
			go func() { _, _ = writer.Write(bytes.Repeat([]byte("x"), 100)) }()
			defer writer.Close()
			if status, _ := m.post(t, reader, sign("x")); status != "408 Request Timeout" {
				t.Errorf("a slow stream: %s", status)
			}
		})
	}
	for range 20 {
		if status, major := m.post(t, strings.NewReader(event), sign(event)); status != accepted || major != 2 {
			t.Errorf("a good delivery beside slow streams: %s by HTTP/%d", status, major)
		}
	}
	slow.Wait()
	if n := counted(t, registry, "oncegate_refusals_total", "slow"); n != streams {
		t.Errorf("%v slow streams counted, want %d", n, streams)
	}
	if n := gauge(t, registry, "oncegate_body_in_flight_bytes"); n != 0 {
		t.Errorf("%v bytes are held at rest", n)
	}
}
