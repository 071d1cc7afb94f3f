package forward_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// A target whose handler ends because its caller has gone answers 200 by itself. That is
// not the answer of somebody who did the work: the attempt's outcome is unknown.
func TestAReplyAfterTheEndOfAnAttemptIsNone(t *testing.T) {
	t.Parallel()
	ends := make(chan context.CancelFunc, 1)
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { (<-ends)() }))
	t.Cleanup(target.Close)
	sender := newForward(t, forward.Config{URL: target.URL})
	probe, err := forward.NewProber(forward.ProberConfig{URL: target.URL + "/{key}", Done: []int{200}, Absent: []int{404}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(probe.Close)
	call := &effect.Call{Key: "key", Event: effect.Event{ID: "id", Body: []byte(`{}`)}}
	for range 500 { // the reply and the end of the attempt race for the caller
		ctx, cancel := context.WithCancel(t.Context())
		ends <- cancel
		if r := sender.Send(ctx, call); r.Outcome != effect.Unknown {
			t.Fatalf("an attempt that was ended is %s %s, want unknown", r.Outcome, r.Code)
		}
		ctx, cancel = context.WithCancel(t.Context())
		ends <- cancel
		if r := probe.Probe(ctx, call); r.Outcome != effect.ProbeUnknown {
			t.Fatalf("a probe that was ended says %s, want unknown", r.Outcome)
		}
	}
}
