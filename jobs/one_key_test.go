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
// body, so that it recognises what it has done. That is the key of the effect, whatever header it is sent in. A target that does
// not read it gets it as well, for whoever compares its log with ours.
func TestRetriesAfterTheWorkCarryOneKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		route, header string
		statuses      []int
	}{
		"the usual header":                  {repeatable, "", []int{500, 503, 200}},
		"the provider's own header":         {repeatable, "X-Idempotency-Key", []int{500, 503, 200}},
		"a target that does not read a key": {once, "", []int{429, 429, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(c.route, 1)[0]
			target := targetThatAnswers(t, c.statuses...)
			sender, err := forward.New(forward.Config{URL: target.URL, Idempotent: c.route == repeatable, KeyHeader: c.header})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(sender.Close)
			b.client(jobs.Config{Senders: map[string]effect.Sender{c.route: sender}})
			b.eventuallyState(id, inbox.EffectDone)
			header := http.CanonicalHeaderKey(c.header)
			if header == "" {
				header = forward.DefaultKeyHeader
			}
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
