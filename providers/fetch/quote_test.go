package fetch_test

import (
	"net/http"
	"strings"
	"testing"
)

// An error is logged, and an address of keys may carry a credential: it is not quoted.
func TestErrorsDoNotQuoteTheAddress(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]http.HandlerFunc{
		"cut off":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"not found":   http.NotFound,
		"unavailable": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, cfg := open(t)
			s.says(says)
			_, err := fetcher(t, cfg).Fetch(s.want("/keys?token=canary"))
			if err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v", err)
			}
		})
	}
}
