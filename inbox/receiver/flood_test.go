package receiver_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/refusal"
)

// A flood of forgeries, with the database of the refusal store away, costs the
// good deliveries beside it nothing: each is recorded, and what the store holds
// stays bounded.
func TestAFloodOfForgeriesHurtsNobody(t *testing.T) {
	t.Parallel()
	away, err := pgxpool.ParseConfig("postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), away)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	const most = 1 << 20
	refusals, err := refusal.New(refusal.Config{
		Pool: pool, Logger: slog.New(slog.DiscardHandler), QueueBytes: most, WholePerSecond: 1e6, BytesPerSecond: 1 << 40,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := refusals.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := &fakeGate{}
	cfg := config(g, newProvider())
	cfg.Refusals = refusals
	address := serve(t, cfg, receiver.ServerConfig{})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	t.Cleanup(client.CloseIdleConnections)
	post := func(body, signature string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/in/shop", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Signature", signature)
		answer, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	forged := `{"id":"evt_1","text":"` + strings.Repeat("x", 8000) + `"}`
	var flood sync.WaitGroup
	var refused atomic.Int64
	for range 8 {
		flood.Go(func() {
			for range 250 {
				if post(forged, sign("something else")) == http.StatusUnauthorized {
					refused.Add(1)
				}
			}
		})
	}
	for range 100 {
		if status := post(event, sign(event)); status != http.StatusOK {
			t.Errorf("a good delivery in the flood: %d", status)
		}
		if held := refusals.Stats().QueuedBytes; held > most {
			t.Fatalf("the refusal store holds %d bytes", held)
		}
	}
	flood.Wait()
	if refused.Load() != 2000 || len(g.admissions()) != 100 {
		t.Errorf("%d refused, %d in the gate", refused.Load(), len(g.admissions()))
	}
	if stats := refusals.Stats(); stats.Dropped+stats.Failed == 0 {
		t.Errorf("no refusal was lost, so the store had no trouble: %+v", stats)
	}
	if err := refusals.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
