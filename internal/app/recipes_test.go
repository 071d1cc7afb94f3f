package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
)

// Callers that have no key of their own: what they send makes it. Each call is an
// event of its own, one effect happens, and all get its result.
func TestCallsThatAreOneByWhatTheySay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		operation string
		same      []string // bodies of calls that are one
		other     string
	}{
		"a form and an address within a minute": {
			"form", []string{`{"form":"f1","email":"ann@example.com","at":1}`, `{"form":"f1","email":"ann@example.com","at":2}`},
			`{"form":"f1","email":"bob@example.com","at":2}`,
		},
		"a recipient, a campaign and a day": {
			"campaign", []string{`{"to":"ann","campaign":7,"date":"2026-11-21","try":1}`, `{"date":"2026-11-21","campaign":7.0,"to":"ann","try":2}`},
			`{"to":"ann","campaign":7,"date":"2026-11-22"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			o := newOperated(t, func(w http.ResponseWriter, _ *http.Request) {
				calls++
				fmt.Fprintf(w, `{"charge":%d}`, calls)
			})
			n := 0
			call := func(body string) (document struct {
				Event, Status string
				Effects       []struct {
					State  string
					Result struct{ Charge int }
				}
			}) {
				n++
				got := o.do(t, "POST", "agents", body, "Oncegate-Operation", c.operation, "Idempotency-Key", fmt.Sprint("k", n), "Prefer", "wait=40")
				if got.status != http.StatusOK || json.Unmarshal([]byte(got.body), &document) != nil || len(document.Effects) != 1 {
					t.Fatalf("%d %s", got.status, got.body)
				}
				return document
			}
			first, second, third := call(c.same[0]), call(c.same[1]), call(c.other)
			if first.Event == second.Event || first.Effects[0].State != "done" || second.Effects[0].State != "duplicate" ||
				second.Status != "done" || second.Effects[0].Result != first.Effects[0].Result {
				t.Errorf("%+v, and again %+v", first, second)
			}
			if third.Effects[0].State != "done" || third.Effects[0].Result == first.Effects[0].Result || o.calls.Load() != 2 {
				t.Errorf("%+v after %d calls", third, o.calls.Load())
			}
			inboxtest.Until(t, "all are at rest", func() bool {
				var open int
				err := o.pool.QueryRow(t.Context(), `SELECT count(*) FROM effect WHERE finished_at IS NULL`).Scan(&open)
				return err == nil && open == 0
			})
		})
	}
}
