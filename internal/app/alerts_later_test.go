package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/internal/trials/prometheustest"
	"github.com/oncegate/oncegate/providers/listing/listingtest"
)

const lastingFile = `
targets:
  waiting: { kind: forward, url: env:TARGET, idempotent: true }
  fine: { kind: forward, url: env:TARGET, idempotent: true, retry: { base: 1s, max: 1s } }
sources:
  shop:
    provider: standard-webhooks
    secrets: [env:SECRET]
    routes:
      - { name: wait, types: [wait], target: waiting }
      - { name: fetch, types: [fetch], target: fine, fetch: { url: "%[1]s/{body.type}", hosts: ["%[1]s"] } }
      - { name: order, types: [order], target: fine, order: { mode: contiguous, key: body.key, number: body.number, patience: 2h } }
  bank:
    provider: stripe
    secrets: [env:SECRET]
    routes: [{ name: book, target: fine }]
    reconcile: { credential: env:LIST_KEY, base: "%[2]s", every: 1h }
`

// alertsLater are the alerts of the faults in TestAlertsFireLater, which last for hours or have to do with clocks.
func alertsLater() []string {
	return []string{
		"OncegateBacklog", "OncegateFetchesFail", "OncegateReconcileFails", "OncegateEventsDoNotArrive", "OncegateOrderWaits", "OncegateOrderIsWrong", "OncegatePruneIsBehind", "OncegateClock", "OncegatePauseIsForgotten",
	}
}

// lasting is a process with a clock that passes as its test says.
type lasting struct {
	observed

	list                 *listingtest.API
	listDown, serverDown atomic.Bool // what answers 500: the sender's list, and the server that fetches ask
	file                 string
}

func newLasting(t *testing.T) *lasting {
	t.Helper()
	l := &lasting{observed: *newObserved(t), list: &listingtest.API{}}
	var err error
	if l.clock, err = lab.NewFastClock(t.Context(), l.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.clock.Close(t.Context()) })
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	fetched := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if l.serverDown.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(fetched.Close)
	l.list.Before = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		if l.listDown.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return l.listDown.Load()
	}
	senders := listingtest.Senders()
	list := httptest.NewServer(senders[slices.IndexFunc(senders, func(s listingtest.Sender) bool { return s.Provider == "stripe" })].Handler(l.list))
	t.Cleanup(list.Close)
	l.environ = append(l.environ, "TARGET="+target.URL, "LIST_KEY="+listingtest.Key)
	l.file = fmt.Sprintf(lastingFile, fetched.URL, list.URL)
	return l
}

// take has the process take an event of the source shop.
func (l *lasting) take(t *testing.T, id, body string) {
	t.Helper()
	if answer := l.deliver(t, "shop", id, body, false); answer.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", id, answer.Code, answer.Body)
	}
}

// pass lets minutes pass, one after the other, and keeps what the process shows in each.
func (l *lasting) pass(t *testing.T, minutes int) {
	t.Helper()
	for range minutes {
		if err := l.clock.Pass(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		l.app.CatchUp(t.Context())
		l.recorded.Keep(l.scrape(t), 1)
	}
}

// during lets minutes pass, and asks whether exactly the wanted alerts fire at their end.
func (l *lasting) during(t *testing.T, minutes int, want ...string) prometheustest.Question {
	t.Helper()
	l.pass(t, minutes)
	return prometheustest.Fired(l.recorded.Minutes()-1, l.recorded.Minutes(), want...)
}

// The rules for alerts about what lasts fire during the fault that they are for, and no other rule does.
func TestAlertsFireLater(t *testing.T) {
	t.Parallel()
	prometheustest.Promtool(t)
	l := newLasting(t)
	l.serve(t, l.file, l.clock.Now)
	var asked []prometheustest.Question
	ask := func(q prometheustest.Question) { asked = append(asked, q) }
	ask(l.during(t, 10))

	// Somebody paused a target and has forgotten it.
	waiting, decision := pause.Thing{Kind: pause.Target, Name: "waiting"}, pause.Decision{Actor: "ann", Reason: "a repair"}
	if _, err := pause.Set(t.Context(), l.pool, waiting, decision); err != nil {
		t.Fatal(err)
	}
	l.app.CatchUp(t.Context())
	l.take(t, "evt_wait", `{"type":"wait"}`)
	ask(l.during(t, 14))
	ask(l.during(t, 10, "OncegateBacklog"))
	if err := pause.Lift(t.Context(), l.pool, waiting, decision); err != nil {
		t.Fatal(err)
	}
	l.done(t, "wait")
	ask(l.during(t, 1))

	// A server that fetches ask is down. The process that is started later knows nothing of it.
	l.serverDown.Store(true)
	for i := range 12 {
		l.take(t, fmt.Sprint("evt_fetch", i), `{"type":"fetch"}`)
	}
	inboxtest.Until(t, "a breaker", func() bool { return l.scrape(t).Value("oncegate_fetch_breaker_state", `state="open"`) == 1 })
	ask(l.during(t, 8, "OncegateFetchesFail"))
	l.serverDown.Store(false)
	l.serve(t, l.file, l.clock.Now)
	l.done(t, "fetch")

	// A number is missing for over an hour. Then somebody writes into the table of streams, and nothing is in front of what waits.
	l.take(t, "evt_order1", `{"type":"order","key":"a","number":1}`)
	l.take(t, "evt_order3", `{"type":"order","key":"a","number":3}`)
	inboxtest.Until(t, "a gap", func() bool { return rowsOf(t, l.pool, `SELECT count(*) FROM stream WHERE gap_since IS NOT NULL`) == 1 })
	ask(l.during(t, 60))
	ask(l.during(t, 20, "OncegateOrderWaits"))
	l.exec(t, `UPDATE stream SET applied = 2`)
	inboxtest.Until(t, "a held effect that is found free", func() bool { return l.scrape(t).Value("oncegate_order_held_runnable_total") == 1 })
	l.done(t, "order")
	ask(l.during(t, 5, "OncegateOrderIsWrong"))
	ask(l.during(t, 60))

	// Deliveries get lost, and the sender's list has their events. Then the list cannot be read.
	l.list.Add(listingtest.Event{ID: "evt_lost", Created: l.clock.Now().Add(-10 * time.Minute)})
	ask(l.during(t, 60, "OncegateEventsDoNotArrive"))
	l.listDown.Store(true)
	ask(l.during(t, 130, "OncegateEventsDoNotArrive", "OncegateReconcileFails"))
	l.listDown.Store(false)
	l.recorded.Keep(l.scrape(t), 6*60) // as if it had been asked once more

	// The clock of the machine is set wrong.
	l.serve(t, l.file, func() time.Time { return l.clock.Now().Add(10 * time.Second) })
	ask(l.during(t, 3, "OncegateClock"))

	// Rows are due, and a session that hangs keeps the lock of prune. A pause is forgotten.
	if _, err := pause.Set(t.Context(), l.pool, waiting, decision); err != nil {
		t.Fatal(err)
	}
	l.stop(t)
	l.recorded.Keep(nil, 2)
	if err := l.clock.Pass(t.Context(), 200*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	hangs := inboxtest.Open(t, l.url, l.schema, session.PoolAdmin, 1)
	if _, err := hangs.Exec(t.Context(), `SELECT pg_advisory_lock($1, hashtext(current_schema()))`, advisory.Prune); err != nil {
		t.Fatal(err)
	}
	l.serve(t, l.file, l.clock.Now)
	ask(l.during(t, 70, "OncegatePruneIsBehind", "OncegatePauseIsForgotten"))

	l.recorded.Ask(t, alertRules, asked...)
}

// done waits until the effects of a route are done.
func (l *lasting) done(t *testing.T, route string) {
	t.Helper()
	inboxtest.Until(t, "the effects of "+route, func() bool {
		return rowsOf(t, l.pool, `SELECT count(*) FROM effect e JOIN route r ON r.id = e.route_id WHERE r.name = '`+route+`' AND e.state <> 'done'`) == 0
	})
}

// Each alert has a fault that provokes it. ReloadFailed has one where processes reload: in the week of package server.
func TestEveryAlertHasAFault(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(alertRules)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			rules = append(rules, rule.Alert)
		}
	}
	provoked := slices.Concat(alertsAtOnce(), alertsLater(), []string{"OncegateReloadFailed"})
	slices.Sort(rules)
	slices.Sort(provoked)
	if !slices.Equal(rules, provoked) {
		t.Errorf("the rules are\n%q\nand there are faults for\n%q", rules, provoked)
	}
}
