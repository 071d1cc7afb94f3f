package app_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncegate/oncegate/internal/app"
)

// A request that meets the shut door of an App that has just lost the lead goes to the App that leads now. Without one, it
// is refused.
func TestARequestFollowsTheLead(t *testing.T) {
	t.Parallel()
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	for want, next := range map[int]http.Handler{http.StatusAccepted: served, http.StatusServiceUnavailable: nil} {
		answer := httptest.NewRecorder()
		app.HandOver(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop", nil), next)
		if answer.Code != want {
			t.Errorf("answered %d, want %d", answer.Code, want)
		}
	}
}
