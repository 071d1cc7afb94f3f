package refusal_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/inbox/registry"
)

// flood sends refusals through a store at a rate of simulated time.
type flood struct {
	t        *testing.T
	clock    atomic.Int64 // since refusedAt
	refusals *refusal.Store
	pool     *pgxpool.Pool
	source   int32
	given    uint64 // how many the store was offered
}

func newFlood(t *testing.T, cfg refusal.Config) *flood {
	t.Helper()
	f := &flood{t: t}
	cfg.Now = f.now
	f.refusals, f.pool = newRefusals(t, cfg)
	registered, err := registry.Register(t.Context(), f.pool, []registry.Source{{Name: "shop", Provider: "shopify", Class: "default"}})
	if err != nil {
		t.Fatal(err)
	}
	f.source = registered["shop"].ID
	startRefusals(t, f.refusals)
	return f
}

func (f *flood) now() time.Time { return refusedAt.Add(time.Duration(f.clock.Load())) }

func (f *flood) pass(d time.Duration) { f.clock.Add(int64(d)) }

// add offers one refusal, and waits when the writer is far behind: its speed is not
// what is tested.
func (f *flood) add(remote string, body []byte, change func(r *refusal.Refusal)) {
	f.t.Helper()
	if f.given%1000 == 0 {
		f.settle(500)
	}
	f.given++
	refusal := mismatch(0, body)
	refusal.SourceID, refusal.ReceivedAt, refusal.Remote, refusal.Diagnosis = f.source, f.now(), remote, "no live secret matches X-Signature"
	if change != nil {
		change(&refusal)
	}
	f.refusals.Add(refusal)
}

// settle waits until at most this many refusals are queued.
func (f *flood) settle(most uint64) {
	f.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for {
		s := f.refusals.Stats()
		if f.given <= s.Written+s.Failed+s.Limited+s.Dropped+most {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			f.t.Fatalf("the writer does not keep up: %+v", s)
		}
	}
}

// genuine counts the refusals that `refusals reverify` admits once the secret is right.
func (f *flood) genuine() int {
	f.t.Helper()
	report, err := refusal.Reverify{
		Pool: f.pool, Source: f.source, Name: "shop", DryRun: true,
		Verify: func(r *read.RefusalDetail) (*inbox.Admission, error) {
			if !bytes.HasPrefix(r.Body, []byte("genuine ")) {
				return nil, refusal.ErrStillRefused
			}
			return &inbox.Admission{Body: r.Body, Events: []inbox.NewEvent{{EventID: string(r.Body)}}}, nil
		},
	}.Run(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return report.Verified
}

func (f *flood) sendGenuine(n int, remote string, change func(r *refusal.Refusal)) {
	for i := range n {
		f.add(remote, fmt.Appendf(nil, "genuine %d", i), change)
		f.pass(time.Second)
	}
}

// Whoever forges has no secret, and must not be able to remove what an operator wants
// back after a secret was rotated too early: an hour of forgeries from one address, a
// hundred a second, leaves the refusals of every other address in place.
func TestForgeriesOfOnePeerLeaveTheRefusalsOfOthers(t *testing.T) {
	t.Parallel()
	for name, remote := range map[string]func(n int) string{
		"IPv4":        func(int) string { return "203.0.113.9" },
		"IPv6 subnet": func(n int) string { return fmt.Sprintf("2001:db8:1:2::%x", n%65536) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A tenth of the default limit and of the hour: what counts is that the forgeries
			// are 36 times as many as the rows that are kept.
			f := newFlood(t, refusal.Config{MaxRows: 1_000})
			f.sendGenuine(20, "192.0.2.1", nil)
			for n := range 36_000 {
				f.add(remote(n), []byte("forged"), nil)
				f.pass(10 * time.Millisecond)
			}
			stopRefusals(t, f.refusals)
			if kept := f.genuine(); kept != 20 {
				t.Errorf("reverify finds %d of the 20 genuine refusals", kept)
			}
			if rows := countRefusals(t, f.pool, "true"); rows > 1_000 {
				t.Errorf("%d rows are kept, the limit is 1000", rows)
			}
		})
	}
}

// Large bodies and headers count as what they take.
func TestForgeriesWithLargeBodiesLeaveTheRefusalsOfOthers(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	f := newFlood(t, refusal.Config{MaxBytes: most, BytesPerSecond: 1 << 30})
	f.sendGenuine(20, "192.0.2.1", nil)
	for n := range 200 {
		f.add("203.0.113.9", make([]byte, 50<<10), func(r *refusal.Refusal) {
			if n%2 == 0 { // what is kept of the headers is the sender's as well
				r.Body, r.Headers = nil, fmt.Appendf(nil, `{"X-Long":[%q]}`, strings.Repeat("x", 100<<10))
			}
		})
		f.settle(5)
	}
	stopRefusals(t, f.refusals)
	if kept := f.genuine(); kept != 20 {
		t.Errorf("reverify finds %d of the 20 genuine refusals", kept)
	}
	var bytes int64
	if err := f.pool.QueryRow(t.Context(), "SELECT sum(octet_length(body) + octet_length(headers)) FROM refusal").Scan(&bytes); err != nil || bytes > most {
		t.Errorf("%d bytes are kept, %v; the limit is %d", bytes, err, most)
	}
}

// Forgers with many addresses share what is left for their diagnosis: a proved one
// (here a secret with a line break in it) takes the secret to provoke, so it has a share
// that they cannot reach. A refusal without a signature cannot touch it either, nor be touched.
func TestForgeriesOfManyPeersLeaveOtherDiagnoses(t *testing.T) {
	t.Parallel()
	f := newFlood(t, refusal.Config{MaxRows: 200, MaxSamples: 200, WholePerSecond: 1e6, SamplesPerSecond: 1e6, DiagnosesPerSecond: 1e6})
	proved := func(kind string) func(*refusal.Refusal) {
		return func(r *refusal.Refusal) {
			r.Diagnose = func([]byte) (string, string) { return kind, "what it says" }
		}
	}
	sampled := func(cause string) func(*refusal.Refusal) {
		return func(r *refusal.Refusal) { r.Whole, r.Cause = false, cause }
	}
	f.sendGenuine(20, "192.0.2.1", proved("secret_written"))
	f.sendGenuine(20, "192.0.2.1", sampled("stale"))
	for n := range 4_000 {
		remote := fmt.Sprintf("198.18.%d.%d", n/256, n%256)
		f.add(remote, []byte("forged"), proved("unknown"))
		f.add(remote, nil, sampled("unsigned"))
	}
	stopRefusals(t, f.refusals)
	if kept := f.genuine(); kept != 20 {
		t.Errorf("reverify finds %d of the 20 genuine refusals", kept)
	}
	for where, want := range map[string]int{"whole": 200, "NOT whole": 200} {
		if rows := countRefusals(t, f.pool, where); rows > want || rows < want*9/10 {
			t.Errorf("%d rows are kept with %s, the limit is %d", rows, where, want)
		}
	}
	if stale := countRefusals(t, f.pool, "cause = 'stale'"); stale != 20 {
		t.Errorf("%d of the 20 stale ones are kept", stale)
	}
}

// A flood that is faster than the store takes refusals leaves room for others: in the
// rate, in the diagnoses and in the queue while the database is away.
func TestAFastFloodLeavesRoomForOtherPeers(t *testing.T) {
	t.Parallel()
	diagnosed := 0
	f := &flood{t: t}
	f.refusals, f.pool = newRefusals(t, refusal.Config{
		WholePerSecond: 100, SamplesPerSecond: 10, BytesPerSecond: 1 << 20, DiagnosesPerSecond: 4, QueueBytes: 4 << 20, Now: f.now,
	})
	forged := mismatch(0, bytes.Repeat([]byte("x"), 20<<10))
	forged.Remote = "203.0.113.9"
	forged.Diagnose = func([]byte) (string, string) { return "unknown", "" }
	unsigned := mismatch(0, nil)
	unsigned.Remote, unsigned.Whole, unsigned.Cause = "203.0.113.9", false, "unsigned"
	for range 20_000 {
		f.refusals.Add(forged)
		f.refusals.Add(unsigned)
		f.pass(100 * time.Microsecond)
	}
	taken := 0
	for n := range 20 {
		genuine := mismatch(n, fmt.Appendf(nil, "genuine %s", strings.Repeat("y", 1000)))
		genuine.Diagnose = func([]byte) (string, string) { diagnosed++; return "unknown", "" }
		if f.refusals.Add(genuine) {
			taken++
		}
		f.refusals.Add(forged)
		f.pass(time.Second)
	}
	stale := mismatch(0, nil)
	stale.Whole, stale.Cause = false, "stale"
	if !f.refusals.Add(stale) {
		t.Error("a stale one was not taken")
	}
	startRefusals(t, f.refusals)
	stopRefusals(t, f.refusals)
	if taken != 20 || diagnosed == 0 {
		t.Errorf("%d of 20 were taken and %d diagnosed: %+v", taken, diagnosed, f.refusals.Stats())
	}
}

// Peers are counted one by one only up to a number: a forger with very many addresses
// does not fill the memory.
func TestRefusalPeersAreBounded(t *testing.T) {
	t.Parallel()
	f := &flood{t: t}
	f.refusals, _ = newRefusals(t, refusal.Config{Now: f.now})
	forged := mismatch(0, []byte("x"))
	for n := range 200_000 {
		forged.Remote = fmt.Sprintf("2001:db8:%x:%x::1", n/65536, n%65536)
		f.refusals.Add(forged)
		f.pass(time.Millisecond)
	}
	// 1,024 in the rate, and one for each place in the queue.
	if peers := f.refusals.Peers(); peers > 1024+4096 {
		t.Errorf("%d peers are remembered", peers)
	}
}
