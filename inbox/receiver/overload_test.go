package receiver_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/providers"
)

// resident is the process's resident set in bytes.
func resident(tb testing.TB) int64 {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Skip("no /proc: resident memory cannot be read here")
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	tb.Fatal("no VmRSS")
	return 0
}

// With the gate stuck, 600 senders of 64 KB bodies get 503 as soon as the
// budget is used up; memory stays bounded, and when the gate answers again all
// of it is given back and no goroutine is left.
//
// It is not parallel: what it measures is the memory of the whole process.
func TestMemoryIsBoundedUnderOverload(t *testing.T) { //nolint:paralleltest // see above
	const (
		senders  = 600
		budget   = 16 << 20
		admitted = budget / (64 << 10)
	)
	release := make(chan struct{})
	var waiting atomic.Int64
	stuck := accepter(func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		waiting.Add(1)
		<-release
		return receipt(a, inbox.Recorded), nil
	})
	registry := prometheus.NewRegistry()
	metrics, err := receiver.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(stuck, newProvider())
	cfg.BodyBytes, cfg.Metrics = budget, metrics
	body := `{"id":"evt_1","text":"` + strings.Repeat("x", maxBody-64) + `"}`
	raw := []byte(whole(body))

	// Goroutines started under a label carry it, which tells the server's from
	// those of the tests beside this one.
	before := resident(t)
	labels := pprof.Labels("test", "overload")
	listener := listen(t)
	served := make(chan struct{})
	server, err := receiver.NewServer(receiver.ServerConfig{Handler: newReceiver(t, cfg), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	pprof.Do(t.Context(), labels, func(context.Context) {
		go func() { defer close(served); _ = server.Serve(listener) }()
	})

	var clients sync.WaitGroup
	var accepted, shed, other atomic.Int64
	for range senders {
		clients.Go(func() {
			conn := dial(t, listener.Addr().String())
			_, _ = conn.Write(raw)
			_ = conn.CloseWrite()
			answer, _ := io.ReadAll(conn)
			_ = conn.Close()
			switch {
			case bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")):
				accepted.Add(1)
			case bytes.HasPrefix(answer, []byte("HTTP/1.1 503 ")) && bytes.Contains(answer, []byte("Retry-After: 1\r\n")):
				shed.Add(1)
			default:
				other.Add(1)
			}
		})
	}
	inboxtest.Until(t, "all senders to be admitted or shed", func() bool {
		return waiting.Load()+shed.Load()+other.Load() == senders
	})
	grown := resident(t) - before
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("waiting %d, shed %d, other %d, resident +%d MiB, heap %d MiB, stacks %d MiB",
		waiting.Load(), shed.Load(), other.Load(), grown>>20, memory.HeapAlloc>>20, memory.StackInuse>>20)
	if n := waiting.Load(); n > admitted || n < admitted/2 {
		t.Errorf("%d deliveries wait in the gate, want about %d", n, admitted)
	}
	if memory.HeapAlloc > 96<<20 {
		t.Errorf("the heap holds %d MiB for a budget of %d MiB", memory.HeapAlloc>>20, budget>>20)
	}
	if now := resident(t); now > 256<<20 && !raced {
		t.Errorf("%d MiB are resident", now>>20)
	}

	close(release)
	clients.Wait()
	// A connection that is reset while it is told 503 may not hear it.
	if accepted.Load() != waiting.Load() || other.Load() > senders/10 {
		t.Errorf("accepted %d of %d that waited, shed %d, other %d", accepted.Load(), waiting.Load(), shed.Load(), other.Load())
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Errorf("draining: %v", err)
	}
	<-served
	inboxtest.Until(t, "the server's goroutines to end", func() bool {
		var profile bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
		return !strings.Contains(profile.String(), `"test":"overload"`)
	})
	for _, name := range []string{"oncegate_body_in_flight_bytes", "oncegate_deliveries_in_flight"} {
		if n := gauge(t, registry, name); n != 0 {
			t.Errorf("%s is %v at rest", name, n)
		}
	}
}

type accepter func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error)

func (f accepter) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	return f(ctx, a)
}

func gauge(tb testing.TB, registry *prometheus.Registry, name string) float64 {
	tb.Helper()
	families, err := registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	tb.Fatalf("no metric %s", name)
	return 0
}

// A body that finds no room is shed, and finds it when another has gone.
func TestTheByteBudget(t *testing.T) {
	t.Parallel()
	send := func(handler http.Handler) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, newRequest(t, &answerCase{body: strings.Repeat("x", 24<<10)}))
		return answer
	}
	var handler http.Handler
	calls := 0
	cfg := config(accepter(func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		calls++
		if beside := send(handler); beside.Code != http.StatusServiceUnavailable ||
			beside.Header().Get("Retry-After") != "1" || beside.Body.Len() != 0 {
			t.Errorf("beside one that fills the budget: %d %q", beside.Code, beside.Body)
		}
		return receipt(a, inbox.Recorded), nil
	}), newProvider())
	cfg.Sources["shop"].MaxBody = 24 << 10
	cfg.BodyBytes = 32<<10 + 16<<10 // what it has while it gets its last buffer
	handler = newReceiver(t, cfg)
	for range 3 {
		if answer := send(handler); answer.Code != http.StatusOK {
			t.Errorf("alone: %d", answer.Code)
		}
	}
	if calls != 3 {
		t.Errorf("the gate was asked %d times, want 3", calls)
	}
	cfg.BodyBytes--
	if _, err := receiver.New(cfg); err == nil {
		t.Error("a budget was taken in which a body of the allowed size never fits")
	}
}

// Whatever way a delivery ends, what it borrowed is given back, and a buffer
// never carries one delivery's bytes into another.
func TestBodiesAreGivenBackAndNeverMixed(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := receiver.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	var number atomic.Int64
	cfg := config(accepter(func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		seen := bytes.Clone(a.Body)
		runtime.Gosched()
		if !bytes.Equal(seen, a.Body) {
			t.Error("the body changed while the gate had it")
		}
		switch number.Add(1) % 4 {
		case 0:
			panic("gate")
		case 1:
			return inbox.Receipt{}, gate.ErrUnavailable
		case 2:
			return inbox.Receipt{}, gate.ErrOverloaded
		}
		return receipt(a, inbox.Recorded), nil
	}), newProvider())
	cfg.Metrics, cfg.BodyBytes = metrics, 1<<20
	handler := newReceiver(t, cfg)
	var senders sync.WaitGroup
	for sender := range 8 {
		senders.Go(func() {
			for n := range 200 {
				body := fmt.Sprintf(`{"id":"%d-%d","text":"%s"}`, sender, n, strings.Repeat(string(rune('a'+sender)), n*331))
				test := answerCase{body: body}
				switch n % 5 {
				case 3:
					test.length = int64(len(body) + 1) // truncated
				case 4:
					test.length = -1
				}
				handler.ServeHTTP(httptest.NewRecorder(), newRequest(t, &test))
			}
		})
	}
	senders.Wait()
	if n := gauge(t, registry, "oncegate_body_in_flight_bytes"); n != 0 {
		t.Errorf("%v bytes were never given back", n)
	}
}

// BenchmarkHandler is the receiver alone: no network, no database, 2 KB.
func BenchmarkHandler(b *testing.B) {
	cfg := config(accepter(func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		return inbox.Receipt{Items: []inbox.ItemReceipt{{ID: recorded, Outcome: inbox.Recorded}}}, nil
	}), plain{newProvider()})
	handler := newReceiver(b, cfg)
	body := `{"id":"evt_1","text":"` + strings.Repeat("x", 2000) + `"}`
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/in/shop", strings.NewReader(body))
		req.Header["Content-Type"] = []string{"application/json"}
		handler.ServeHTTP(httptest.NewRecorder(), req)
	}
}

// plain verifies nothing, so that the benchmark measures the receiver.
type plain struct{ *provider }

func (plain) Verify(req *providers.Request, _ []providers.Secret) (*providers.Delivery, error) {
	return &providers.Delivery{Items: []providers.Item{{EventID: "evt_1", Length: len(req.Body)}}, Secret: "old"}, nil
}
