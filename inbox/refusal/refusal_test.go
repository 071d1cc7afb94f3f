package refusal_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/refusal"
)

var refusedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newRefusals(t *testing.T, cfg refusal.Config) (*refusal.Store, *pgxpool.Pool) {
	t.Helper()
	if cfg.Pool == nil {
		cfg.Pool = inboxtest.Pool(t)
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return refusedAt }
	}
	refusals, err := refusal.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return refusals, cfg.Pool
}

func startRefusals(t *testing.T, refusals *refusal.Store) {
	t.Helper()
	if err := refusals.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func stopRefusals(t *testing.T, refusals *refusal.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := refusals.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func mismatch(n int, body []byte) refusal.Refusal {
	return refusal.Refusal{
		SourceID:   7,
		ReceivedAt: refusedAt.Add(time.Duration(n) * time.Millisecond),
		Cause:      "mismatch",
		Diagnosis:  fmt.Sprint("number ", n),
		Method:     "POST",
		URL:        "/in/stripe",
		Remote:     "192.0.2.1",
		Headers:    []byte(`{"Stripe-Signature":["t=1,v1=00"]}`),
		Body:       body,
		Whole:      true,
	}
}

func TestRefusalsKeepAMismatchWhole(t *testing.T) {
	t.Parallel()
	refusals, pool := newRefusals(t, refusal.Config{})
	startRefusals(t, refusals)

	// Bytes that text and jsonb would not hold.
	body := []byte("{\"a\":\x00\xff\xfe 1e400000}")
	sent := bytes.Clone(body)
	if !refusals.Add(mismatch(1, sent)) {
		t.Fatal("the refusal was not taken")
	}
	for i := range sent {
		sent[i] = 'x' // the receiver reuses its buffer
	}
	refusals.Add(mismatch(2, nil))
	stopRefusals(t, refusals)

	var cause, url, remote, diagnosis string
	var headers, stored []byte
	var size int
	var at time.Time
	err := pool.QueryRow(t.Context(), `SELECT cause, diagnosis, url, remote, headers, body, size, received_at
		FROM refusal WHERE whole ORDER BY id LIMIT 1`).Scan(&cause, &diagnosis, &url, &remote, &headers, &stored, &size, &at)
	if err != nil {
		t.Fatal(err)
	}
	if cause != "mismatch" || diagnosis != "number 1" || url != "/in/stripe" || remote != "192.0.2.1" ||
		size != len(body) || !at.Equal(refusedAt.Add(time.Millisecond)) {
		t.Errorf("stored %q %q %q %q %d %v", cause, diagnosis, url, remote, size, at)
	}
	if !bytes.Equal(stored, body) {
		t.Errorf("stored body %q, sent %q", stored, body)
	}
	if string(headers) != `{"Stripe-Signature":["t=1,v1=00"]}` {
		t.Errorf("stored headers %s", headers)
	}
	// An empty body is a body too.
	if n := countRefusals(t, pool, "whole AND body = ''"); n != 1 {
		t.Errorf("%d whole refusals with an empty body, want 1", n)
	}
}

func TestRefusalsKeepNoContentOfOthers(t *testing.T) {
	t.Parallel()
	refusals, pool := newRefusals(t, refusal.Config{})
	startRefusals(t, refusals)
	refusal := mismatch(1, []byte("secret content"))
	refusal.Whole, refusal.Cause = false, "stale"
	refusal.URL, refusal.Diagnosis = "/in/\x00\xff"+strings.Repeat("x", 5000), "nul \x00"
	refusals.Add(refusal)
	stopRefusals(t, refusals)
	if n := countRefusals(t, pool, "NOT whole AND body IS NULL AND headers IS NULL AND size = 14 AND cause = 'stale'"); n != 1 {
		t.Errorf("%d sampled refusals, want 1", n)
	}
}

// A flood is bounded by the source's rate, and another source does not feel it.
func TestRefusalsAreLimitedPerSource(t *testing.T) {
	t.Parallel()
	now := refusedAt
	refusals, pool := newRefusals(t, refusal.Config{
		WholePerSecond: 2, SamplesPerSecond: 1, BytesPerSecond: 1000, Now: func() time.Time { return now },
	})
	taken := 0
	for n := range 1000 {
		if refusals.Add(mismatch(n, []byte("x"))) {
			taken++
		}
	}
	// Three quarters of the burst of 10 are anybody's, and one more is this peer's share of the reserve.
	if taken != 8 {
		t.Errorf("took %d of a flood, want 8", taken)
	}
	other := mismatch(1, []byte("x"))
	other.SourceID = 8
	if !refusals.Add(other) {
		t.Error("another source's refusal was not taken")
	}
	sample := mismatch(1, nil)
	sample.Whole = false
	if !refusals.Add(sample) {
		t.Error("a sample was held up by whole refusals")
	}
	now = now.Add(time.Second)
	if !refusals.Add(mismatch(1, []byte("x"))) {
		t.Error("the rate did not recover")
	}
	large := mismatch(1, make([]byte, 3990))
	large.SourceID = 9
	// Once from what is anybody's, and once from the reserve.
	for n, want := range []bool{true, true, false} {
		if refusals.Add(large) != want {
			t.Errorf("large refusal %d: taken is %t", n, !want)
		}
	}
	startRefusals(t, refusals)
	stopRefusals(t, refusals)
	if n := countRefusals(t, pool, "true"); n != 13 {
		t.Errorf("%d rows, want 13", n)
	}
	if stats := refusals.Stats(); stats.Written != 13 || stats.Limited != 993 || stats.QueuedBytes != 0 {
		t.Errorf("stats %+v", stats)
	}
}

// With the writer not keeping up, memory stays bounded and Add does not wait.
func TestRefusalsDropWhatTheQueueCannotHold(t *testing.T) {
	t.Parallel()
	refusals, _ := newRefusals(t, refusal.Config{QueueBytes: 64 << 10, BytesPerSecond: 1 << 30, WholePerSecond: 1e6})
	body := make([]byte, 8<<10)
	for n := range 100 {
		refusals.Add(mismatch(n, body))
	}
	stats := refusals.Stats()
	if stats.QueuedBytes > 64<<10 || stats.Dropped < 90 {
		t.Errorf("stats %+v", stats)
	}
	for range 10_000 { // more than the queue has places
		refusals.Add(mismatch(1, nil))
	}
	stopRefusals(t, refusals)
	if refusals.Add(mismatch(1, nil)) {
		t.Error("a stopped store took a refusal")
	}
}

func TestRefusalsEvictTheOldest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  refusal.Config
		body int
		most int
	}{
		"by rows":  {refusal.Config{MaxRows: 100}, 10, 100},
		"by bytes": {refusal.Config{MaxBytes: 100_000}, 2000, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.cfg.WholePerSecond, test.cfg.BytesPerSecond = 1e6, 1e9
			refusals, pool := newRefusals(t, test.cfg)
			sample := mismatch(0, nil)
			sample.Whole, sample.SourceID = false, 7
			other := mismatch(0, []byte("other source"))
			other.SourceID = 8
			refusals.Add(sample)
			refusals.Add(other)
			const sent = 700
			for n := range sent {
				if !refusals.Add(mismatch(n, make([]byte, test.body))) {
					t.Fatalf("refusal %d was not taken: %+v", n, refusals.Stats())
				}
			}
			startRefusals(t, refusals)
			stopRefusals(t, refusals)

			kept := countRefusals(t, pool, "whole AND source_id = 7")
			if kept > test.most || kept < test.most*9/10 {
				t.Errorf("kept %d, want at most %d and not much less", kept, test.most)
			}
			newest := countRefusals(t, pool, fmt.Sprintf("whole AND source_id = 7 AND received_at >= '%s'",
				refusedAt.Add(time.Duration(sent-kept)*time.Millisecond).Format(time.RFC3339Nano)))
			if newest != kept {
				t.Errorf("%d of %d kept are the newest", newest, kept)
			}
			if n := countRefusals(t, pool, "NOT whole OR source_id = 8"); n != 2 {
				t.Errorf("%d of the other two shelves left, want 2", n)
			}
			if got := refusals.Stats().Evicted; got != uint64(sent-kept) {
				t.Errorf("counted %d evicted, want %d", got, sent-kept)
			}
		})
	}
}

// A database that is away costs refusals, nothing else.
func TestRefusalsSurviveADeadDatabase(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig("postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	refusals, _ := newRefusals(t, refusal.Config{Pool: pool})
	refusals.Add(mismatch(1, []byte("x")))
	startRefusals(t, refusals)
	stopRefusals(t, refusals)
	if stats := refusals.Stats(); stats.Failed != 1 || stats.QueuedBytes != 0 {
		t.Errorf("stats %+v", stats)
	}
}

func TestNewRefusalsReportsEverything(t *testing.T) {
	t.Parallel()
	_, err := refusal.New(refusal.Config{MaxRows: -1})
	for _, want := range []string{"Pool", "Logger", "limits"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func countRefusals(t *testing.T, pool *pgxpool.Pool, where string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM refusal WHERE "+where).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
