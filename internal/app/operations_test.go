package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
)

const operationsFile = `
targets:
  bank: { kind: forward, url: env:TARGET, idempotent: true, keep_reply: true, retry: { attempts: 2, base: 10ms, max: 20ms } }
  mute: { kind: forward, idempotent: false, url: env:TARGET, probe: { url: env:PROBE, every: 1s } }
sources:
  agents:
    provider: operation
    secrets: [{ env: AGENT, name: agent }, { env: CLERK, name: clerk }]
    emit: true
    sessions: { longest: 8h }
    routes:
      - { name: bank, types: [charge, refund], target: bank }
      - { name: mute, types: [post], target: mute }
      - { name: form, types: [form], target: bank, key: { fields: [body.form, body.email], within: 60s } }
      - { name: campaign, types: [campaign], target: bank, key: { fields: [body.to, body.campaign, body.date], keep: 7d } }
  runs:
    provider: operation
    secrets: [{ env: AGENT, name: agent }]
    operation: { key: [header.Run-Id, body.step, body.tick] }
    sessions: { longest: 1m }
    routes: [{ name: bank, target: bank }]
`

// operated is a running process with operations, and the target they act on.
type operated struct {
	a      *app.App
	schema string
	pool   *pgxpool.Pool

	// answer is the target's.
	answer func(w http.ResponseWriter, r *http.Request)
	calls  atomic.Int64
}

func newOperated(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *operated {
	t.Helper()
	o := &operated{answer: answer}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			o.calls.Add(1)
		}
		o.answer(w, r)
	}))
	t.Cleanup(target.Close)
	o.start(t, "oncegate.yml", operationsFile, "TARGET="+target.URL+"/pay", "PROBE="+target.URL+"/paid/{key}")
	return o
}

type reply struct {
	status int
	header http.Header
	body   string
}

// do asks /in/ + path; headers replace the usual ones.
func (o *operated) do(t *testing.T, method, path, body string, headers ...string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+o.a.PublicAddr().String()+"/in/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{"Authorization", "Bearer agent_secret"}, {"Oncegate-Operation", "charge"}, {"Content-Type", "application/json"}} {
		request.Header.Set(pair[0], pair[1])
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client().Do(request)
	if err != nil {
		t.Error(err)
		return reply{}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return reply{response.StatusCode, response.Header, string(content)}
}

// A hundred identical calls at once: one acts, one is told that it is recorded,
// the others that it is in flight or how it ended, and from then on everybody
// gets the same bytes.
func TestHundredCallsAreOne(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	o := newOperated(t, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = w.Write([]byte(`{"charge":"ch_1"}`))
	})
	replies := make([]reply, 100)
	var wg sync.WaitGroup
	for i := range replies {
		if i == 50 {
			close(release)
		}
		wg.Go(func() {
			// A busy machine may answer 503. The caller then makes the same call again.
			for replies[i].status == 0 || replies[i].status == http.StatusServiceUnavailable {
				replies[i] = o.do(t, "POST", "agents", `{"amount":1}`, "Idempotency-Key", "k1")
			}
		})
	}
	wg.Wait()
	statuses := map[int]int{}
	documents := map[string]bool{}
	location := ""
	for _, r := range replies {
		statuses[r.status]++
		if r.status == 200 {
			documents[r.body] = true
		}
		location = "agents/" + r.header.Get("Oncegate-Event")
	}
	if statuses[202] > 1 || statuses[202]+statuses[409]+statuses[200] != 100 {
		t.Fatalf("statuses %v", statuses)
	}
	last := o.do(t, "POST", "agents", `{ "amount" : 1 }`, "Idempotency-Key", "k1", "Prefer", "wait=20")
	documents[last.body] = true
	var result struct {
		Status  string
		Effects []struct {
			Route, State string
			Result       struct{ Charge string }
		}
	}
	if err := json.Unmarshal([]byte(last.body), &result); err != nil {
		t.Fatal(err)
	}
	if last.status != 200 || last.header.Get("Idempotent-Replayed") != "true" || result.Status != "done" || len(result.Effects) != 1 ||
		result.Effects[0].State != "done" || result.Effects[0].Result.Charge != "ch_1" {
		t.Errorf("%d %s", last.status, last.body)
	}
	status := o.do(t, "GET", location, "")
	documents[status.body] = true
	if status.status != 200 || len(documents) != 1 || o.calls.Load() != 1 {
		t.Errorf("%d: %d different documents, %d calls at the target", status.status, len(documents), o.calls.Load())
	}
	if other := o.do(t, "GET", location, "", "Authorization", "Bearer clerk_secret"); other.status != 404 {
		t.Errorf("another credential gets %d", other.status)
	}
	conflict := o.do(t, "POST", "agents", `{"amount":2}`, "Idempotency-Key", "k1")
	if conflict.status != 409 || !strings.Contains(conflict.body, `"paths":["amount"]`) || !strings.Contains(conflict.body, `"payload":{"amount":1}`) {
		t.Errorf("%d %s", conflict.status, conflict.body)
	}
	// The same key of another operation or credential is another call.
	for _, headers := range [][]string{{"Oncegate-Operation", "refund"}, {"Authorization", "Bearer clerk_secret"}} {
		if r := o.do(t, "POST", "agents", `{"amount":1}`, append(headers, "Idempotency-Key", "k1")...); r.status != 202 {
			t.Errorf("%v: %d", headers, r.status)
		}
	}
}

// A failure is stored and returned; nothing is run again for it. A call that the target
// refuses for what it says (422) is not retriable: said again, it is refused again. A new key may
// name the old one.
func TestFailureIsReturned(t *testing.T) {
	t.Parallel()
	o := newOperated(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) })
	first := o.do(t, "POST", "agents", `{}`, "Idempotency-Key", "k1", "Prefer", "wait=20")
	again := o.do(t, "POST", "agents", `{}`, "Idempotency-Key", "k1")
	if first.status != 200 || again.status != 200 || first.body != again.body || !strings.Contains(first.body, `"status":"failed","retriable":false`) || o.calls.Load() != 1 {
		t.Errorf("%d %s, then %d %s, %d calls", first.status, first.body, again.status, again.body, o.calls.Load())
	}
	parent := first.header.Get("Oncegate-Event")
	next := o.do(t, "POST", "agents", `{}`, "Idempotency-Key", "k2", "Oncegate-Resumes", "k1", "Prefer", "wait=20")
	if next.status != 200 || !strings.Contains(next.body, `"parent":"`+parent+`"`) {
		t.Errorf("%d %s", next.status, next.body)
	}
	// What no route takes has not been done, and says so.
	nothing := o.do(t, "POST", "agents", `{}`, "Idempotency-Key", "k3", "Oncegate-Operation", "nothing", "Prefer", "wait=20")
	if nothing.status != 200 || !strings.Contains(nothing.body, `"status":"failed","retriable":false`) {
		t.Errorf("%d %s", nothing.status, nothing.body)
	}
}

func TestRecipeMakesTheKey(t *testing.T) {
	t.Parallel()
	o := newOperated(t, func(http.ResponseWriter, *http.Request) {})
	call := func(run, body string) reply {
		return o.do(t, "POST", "runs", body, "Run-Id", run, "Prefer", "wait=20")
	}
	a := call("r1", `{"step":"pay","tick":1}`)
	b := call("r1", `{"tick":1,"step":"pay"}`)
	c := call("r1", `{"step":"pay","tick":2}`)
	if a.status != 200 || a.body != b.body || c.status != 200 || c.body == a.body || o.calls.Load() != 2 {
		t.Errorf("%d %s\n%d %s\n%d %s\n%d calls", a.status, a.body, b.status, b.body, c.status, c.body, o.calls.Load())
	}
	if r := call("r1", `{"step":"pay"}`); r.status != 400 || !strings.Contains(r.body, "body.tick") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// An unknown outcome is told at once, found out by the probe, and then told.
func TestProbeFindsOut(t *testing.T) {
	t.Parallel()
	var found atomic.Bool
	o := newOperated(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusInternalServerError)
		case !found.Load():
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	post := func() reply {
		return o.do(t, "POST", "agents", `{}`, "Idempotency-Key", "k1", "Oncegate-Operation", "post", "Prefer", "wait=20")
	}
	if r := post(); r.status != 200 || !strings.Contains(r.body, `"status":"indeterminate","retriable":false`) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	found.Store(true)
	inboxtest.Until(t, "the probe resolves it", func() bool { return strings.Contains(post().body, `"status":"done"`) })
	var reason string
	err := o.pool.QueryRow(t.Context(), `SELECT reason FROM audit WHERE actor = 'probe' AND action = 'effect.resolve.done'`).Scan(&reason)
	if err != nil || !strings.Contains(reason, "200") || o.calls.Load() != 1 {
		t.Errorf("%q, %v, %d calls", reason, err, o.calls.Load())
	}
}

// What SQL emits is done well within a second or two, without a notification.
func TestEmittedIsDone(t *testing.T) {
	t.Parallel()
	o := newOperated(t, func(http.ResponseWriter, *http.Request) {})
	emit := "SELECT " + pgx.Identifier{o.schema}.Sanitize() + ".emit('agents', 'agent:charge:' || n, 'charge', '{}') FROM generate_series(1, 200) n"
	began := time.Now()
	if _, err := o.pool.Exec(t.Context(), emit); err != nil {
		t.Fatal(err)
	}
	inboxtest.Until(t, "all is done", func() bool {
		var done int
		err := o.pool.QueryRow(t.Context(), `SELECT count(*) FROM effect WHERE state = 'done'`).Scan(&done)
		return err == nil && done == 200
	})
	t.Logf("200 emitted events were done after %s", time.Since(began).Round(time.Millisecond))
	// A caller who repeats what was emitted gets its result.
	if r := o.do(t, "POST", "agents", `{}`, "Idempotency-Key", "7", "Prefer", "wait=20"); r.status != 200 || !strings.Contains(r.body, `"status":"done"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// A stop does not wait for those who wait.
func TestStopLetsWaitersGo(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	o := newOperated(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	replied := make(chan reply, 1)
	go func() {
		replied <- o.do(t, "POST", "agents", `{}`, "Idempotency-Key", "k1", "Prefer", "wait=30")
	}()
	<-arrived
	stopped := make(chan error, 1)
	go func() { stopped <- o.a.Stop(context.WithoutCancel(t.Context())) }()
	if r := <-replied; r.status != 202 || !bytes.Contains([]byte(r.body), []byte("recorded")) {
		t.Errorf("%d %s", r.status, r.body)
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
