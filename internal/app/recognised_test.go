package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
)

// What was recognised, at the door and by an effect key, is counted beside what was tried: new calls, repeats, repeats in
// flight, conflicts, and effects that another one of the same key has done.
func TestRecognisedCallsAreCounted(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}, 10), make(chan struct{})
	o := newOperated(t, func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-release
	})
	call := func(want int, body string, headers ...string) {
		t.Helper()
		if r := o.do(t, http.MethodPost, "agents", body, headers...); r.status != want {
			t.Fatalf("%d %s, want %d", r.status, r.body, want)
		}
	}
	call(http.StatusAccepted, `{"amount":1}`, "Idempotency-Key", "run-1-step-1-pay")
	<-began
	call(http.StatusConflict, `{"amount":1}`, "Idempotency-Key", "run-1-step-1-pay")
	close(release)
	call(http.StatusOK, `{"amount":1}`, "Idempotency-Key", "run-1-step-1-pay", "Prefer", "wait=40")
	call(http.StatusConflict, `{"amount":2}`, "Idempotency-Key", "run-1-step-1-pay")
	for n := range 3 {
		call(http.StatusOK, `{"form":"f1","email":"ann@example.com"}`, "Oncegate-Operation", "form",
			"Idempotency-Key", fmt.Sprint("submission-of-ann-", n), "Prefer", "wait=40")
	}
	for _, series := range []string{
		`oncegate_deliveries_total{outcome="recorded",source="agents",tenant=""} 4`,
		`oncegate_deliveries_total{outcome="in_flight",source="agents",tenant=""} 1`,
		`oncegate_deliveries_total{outcome="duplicate",source="agents",tenant=""} 1`,
		`oncegate_deliveries_total{outcome="conflict",source="agents",tenant=""} 1`,
		`oncegate_attempts_total{outcome="done",reason="",route="form",source="agents",target="bank"} 1`,
		`oncegate_unattempted_effects_total{route="form",source="agents",state="duplicate",target="bank"} 2`,
	} {
		inboxtest.Until(t, series, func() bool { return strings.Contains(scrape(t, o.a), "\n"+series+"\n") })
	}
}
