package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A target outside recognises the number that came last. It takes one that is sent behind its successor again, so that
// the invariants notice it.
func TestOutsideTakesWhatIsSentBehindItsSuccessor(t *testing.T) {
	t.Parallel()
	for numbers, want := range map[string]string{"1 2 3": "123", "1 1 2 3 3": "123", "1 2 1 3": "1213", "1 3": "13"} {
		o := newExternalTarget()
		for n := range strings.FieldsSeq(numbers) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"id":"evt_k_`+n+`","key":"k","number":`+n+`}`))
			r.Header.Set("Idempotency-Key", n)
			o.ServeHTTP(httptest.NewRecorder(), r)
		}
		applied, err := o.read()
		var got strings.Builder
		for _, a := range applied {
			got.WriteString(strings.TrimPrefix(a.Event, "evt_k_"))
		}
		if err != nil || got.String() != want {
			t.Errorf("%s: %q, %v, want %q", numbers, got.String(), err, want)
		}
	}
}
