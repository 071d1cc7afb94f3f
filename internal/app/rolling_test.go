package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/session"
)

// A deploy rolls over a fleet: the process of before still fetches jobs when the new one
// takes the first deliveries of a new route. Their effects do not wait for it to go, and
// nothing is left with it when it has gone.
func TestARollingDeployOfANewRoute(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	before, after := settings(t, url, schema, target.URL), settings(t, url, schema, target.URL)
	before.Sources[0].Routes = nil // the route is new
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
	stopOld := running(newApp(t, before))
	a := newApp(t, after)
	running(a)
	const n = 100
	batch := func(name string) {
		for i := range n {
			if status := deliver(t, after, a, fmt.Sprintf("evt_%s_%d", name, i)); status != http.StatusOK {
				t.Fatalf("answered %d", status)
			}
		}
	}
	batch("beside")
	inboxtest.Until(t, "all effects to be done beside the old process", func() bool {
		return rowsOf(t, pool, `SELECT count(*) FROM effect WHERE state = 'done'`) == n
	})
	slow := rowsOf(t, pool, `SELECT count(*) FROM effect f JOIN inbox_event e ON e.id = f.event_id WHERE f.finished_at > e.received_at + interval '20 s'`)
	if slow > 0 {
		t.Errorf("%d effects took longer than 20 s", slow)
	}
	if nodes, err := node.List(t.Context(), pool); err != nil || len(nodes) != 2 || len(nodes[0].Routes)+len(nodes[1].Routes) != 1 {
		t.Errorf("the processes are %+v, %v; want one of the two to work the route", nodes, err)
	}
	batch("between")
	stopOld()
	inboxtest.Until(t, "all effects to be done after the old process", func() bool {
		return rowsOf(t, pool, `SELECT count(*) FROM effect WHERE state = 'done'`) == 2*n
	})
}
