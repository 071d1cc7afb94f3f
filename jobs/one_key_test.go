package jobs_test

import (
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// A target that accepts a request, does the work and answers with an error gets the same request again: one key and one
// body, so that it recognises what it has done. That is the key of the effect, whatever header it is sent in.
func TestRetriesAfterTheWorkCarryOneKey(t *testing.T) {
	t.Parallel()
	for header, configured := range map[string]string{forward.DefaultKeyHeader: "", "X-Idempotency-Key": "X-Idempotency-Key"} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(repeatable, 1)[0]
			target := targetThatAnswers(t, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusOK)
			forward, err := forward.New(forward.Config{URL: target.URL, Idempotent: true, KeyHeader: configured})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(forward.Close)
			b.client(jobs.Config{Senders: map[string]effect.Sender{repeatable: forward}})
			b.eventuallyState(id, inbox.EffectDone)
			requests := target.Requests()
			if len(requests) != 3 {
				t.Fatalf("%d requests, want 3", len(requests))
			}
			want := b.text(`SELECT idempotency_key FROM effect WHERE id = $1`, id)
			for i, r := range requests {
				if got := r.Header.Get(header); got == "" || got != want || r.Body != requests[0].Body {
					t.Errorf("request %d: key %q and body %q; want %q and %q", i+1, got, r.Body, want, requests[0].Body)
				}
			}
		})
	}
}
