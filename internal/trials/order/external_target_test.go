package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A target outside recognises the number that came last; one that is sent behind its
// successor is told.
func TestOutsideSeesWhatIsSentBehindItsSuccessor(t *testing.T) {
	t.Parallel()
	for numbers, want := range map[string]string{"1 2 3": "", "1 1 2 3 3": "", "1 2 1 3": "doubled: k/1 disordered: k/1", "1 3": "lost: k/2"} {
		o := newExternalTarget()
		for n := range strings.FieldsSeq(numbers) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"key":"k","number":`+n+`}`))
			r.Header.Set("Idempotency-Key", n)
			o.ServeHTTP(httptest.NewRecorder(), r)
		}
		var said []string
		for _, v := range compareSequence("k", []int{1, 2, 3}, o.applied["k"]) {
			said = append(said, fmt.Sprint(v))
		}
		if got := strings.Join(said, " "); o.err != nil || !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, %v, want %q", numbers, got, o.err, want)
		}
	}
}
