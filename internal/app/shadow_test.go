package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/session"
)

// In a rolling restart, one process has a source in shadow mode and the other does not. Each effect stays what the process was that
// admitted its event, whichever of the two carries it out and whichever ends first. Both directions of a switch look like this.
func TestTwoProcessesDisagreeAboutShadowMode(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]struct{ shadowStays bool }{"the source becomes live": {false}, "the source goes into shadow mode": {true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			got := map[string]int{}
			target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				got[string(body)]++
			}))
			t.Cleanup(target.Close)
			url, schema := inboxtest.Schema(t)
			pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
			live, shadow := settings(t, url, schema, target.URL), settings(t, url, schema, target.URL)
			shadow.Sources[0].Shadow = true
			running := func(a *app.App) (stop func()) {
				if err := a.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				stop = sync.OnceFunc(func() {
					if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
						t.Error(err)
					}
				})
				t.Cleanup(stop)
				return stop
			}
			thing := pause.Thing{Kind: pause.Target, Name: live.Sources[0].Routes[0].Target.Name}
			decision := pause.Decision{Actor: "ann", Reason: "a backlog of both"}
			if _, err := pause.Set(t.Context(), pool, thing, decision); err != nil {
				t.Fatal(err)
			}
			// A process reads the pauses before it takes any work, and then each second: both know of this one.
			inShadow, isLive := newApp(t, shadow), newApp(t, live)
			stopShadow, stopLive := running(inShadow), running(isLive)
			const n = 40
			for i := range n {
				if status := deliver(t, live, isLive, fmt.Sprint("evt_live_", i)); status != http.StatusOK {
					t.Fatalf("answered %d", status)
				}
				if status := deliver(t, shadow, inShadow, fmt.Sprint("evt_shadow_", i)); status != http.StatusOK {
					t.Fatalf("answered %d", status)
				}
				// The other process recognises each of them, and changes nothing.
				if status := deliver(t, shadow, inShadow, fmt.Sprint("evt_live_", i)); status != http.StatusOK {
					t.Fatalf("a duplicate was answered with %d", status)
				}
				if status := deliver(t, live, isLive, fmt.Sprint("evt_shadow_", i)); status != http.StatusOK {
					t.Fatalf("a duplicate was answered with %d", status)
				}
			}
			if waiting := rowsOf(t, pool, `SELECT count(*) FROM effect WHERE state = 'pending'`); waiting != 2*n {
				t.Errorf("%d effects wait for the target, want all %d", waiting, 2*n)
			}
			if order.shadowStays {
				stopLive()
			} else {
				stopShadow()
			}
			if err := pause.Lift(t.Context(), pool, thing, decision); err != nil {
				t.Fatal(err)
			}
			inboxtest.Until(t, "all effects to be settled", func() bool {
				return rowsOf(t, pool, `SELECT count(*) FROM effect WHERE state IN ('done', 'skipped')`) == 2*n
			})
			if wrong := rowsOf(t, pool, `SELECT count(*) FROM effect f JOIN inbox_event e ON e.id = f.event_id
				WHERE f.state <> CASE WHEN e.event_id LIKE 'evt_shadow_%' THEN 'skipped' ELSE 'done' END
					OR f.shadow <> (e.event_id LIKE 'evt_shadow_%') OR e.shadow <> f.shadow`); wrong != 0 {
				t.Errorf("%d of %d effects ended as their process did not record them", wrong, 2*n)
			}
			mu.Lock()
			defer mu.Unlock()
			for body, times := range got {
				if times != 1 {
					t.Errorf("%s was sent %d times", body, times)
				}
			}
			if len(got) != n {
				t.Errorf("%d were sent, want the %d live ones", len(got), n)
			}
		})
	}
}
