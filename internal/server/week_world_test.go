package server_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/internal/trials/prometheustest"
	"github.com/oncegate/oncegate/providers"
)

const weekFile = `
notifications: { source: operators }
work: { sweep_every: 1s }
targets:
  ledger: { kind: forward, url: "%[1]s/ledger", idempotent: true, breaker: { failures: 3, open: 1s }, retry: { base: 5s, max: 30s } }
  bank: { kind: forward, url: "%[1]s/bank", idempotent: false, timeout: 1s }
  chat: { kind: forward, url: "%[1]s/chat", idempotent: true }
sources:
  shop:
    provider: standard-webhooks
    secrets: [env:SECRET]
    routes:
      - { name: book, types: [order], target: ledger }
      - { name: charge, types: [charge], target: bank }
  code: { provider: gitlab, secrets: [%[2]s], routes: [{ name: build, target: ledger }] }
  operators: { provider: standard-webhooks, emit: true, class: ephemeral, routes: [{ name: chat, target: chat }] }
`

// The secrets of the week. The sender of code changes from the first to the second.
const (
	weekSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	anotherSecret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// week is a database with its processes, senders, targets and operators. Its clock moves as the test says.
type week struct {
	t           *testing.T
	clock       *lab.FastClock
	began       time.Time
	url, schema string
	targets     *httptest.Server
	text        string
	processes   map[string]*process // by the name under which they are scraped
	token       string

	down, hangs atomic.Bool // the ledger answers 503, the bank does not answer
	quiet       map[string]bool
	signs       string // the secret with which the sender of code signs
	sent        int

	mu   sync.Mutex
	told []string // what the operators read in their chat

	recorded prometheustest.Recording
	asked    []prometheustest.Question
	from     int // the minute in which the episode began
}

func newWeek(t *testing.T) *week {
	t.Helper()
	w := &week{t: t, processes: map[string]*process{}, quiet: map[string]bool{}, signs: weekSecret}
	w.url, w.schema = inboxtest.Schema(t)
	var err error
	if w.clock, err = lab.NewFastClock(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.clock.Close(t.Context()) })
	w.targets = httptest.NewServer(http.HandlerFunc(w.target))
	t.Cleanup(w.targets.Close)
	w.text, w.began = fmt.Sprintf(weekFile, w.targets.URL, "env:SECRET"), w.clock.Now()
	w.start("oncegate-1", "1.0.0")
	w.token = w.any().token()
	return w
}

// target answers for all targets.
func (w *week) target(out http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/chat":
		var message struct{ Items []struct{ Kind, Name string } }
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			w.t.Error(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, item := range message.Items {
			w.told = append(w.told, strings.TrimSpace(strings.TrimPrefix(r.Header.Get("Oncegate-Event-Type"), "attention.")+" "+item.Kind+" "+item.Name))
		}
	case r.URL.Path == "/ledger" && w.down.Load():
		out.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/bank" && w.hangs.Load():
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
}

// start starts a process with a version.
func (w *week) start(name, version string) {
	w.t.Helper()
	environ := []string{"SECRET=" + weekSecret, "OTHER=" + anotherSecret, "ONCEGATE_TRUSTED_PROXIES=127.0.0.0/8"}
	// A proxy is in front, because all senders of the test have one address.
	w.processes[name] = serveOn(w.t, w.url, w.schema, w.text, app.Config{Version: version, Now: w.clock.Now}, environ...)
}

func (w *week) stop(name string) {
	w.t.Helper()
	if err := w.processes[name].stop(); err != nil {
		w.t.Fatal(err)
	}
	delete(w.processes, name)
}

// any is one of the processes.
func (w *week) any() *process {
	names := slices.Sorted(maps.Keys(w.processes))
	w.sent++
	return w.processes[names[w.sent%len(names)]]
}

// send delivers an event to a source, signed with a secret, and returns the status.
func (w *week) send(source, body, secret string) int {
	w.t.Helper()
	p := w.any()
	settings, err := p.load()
	if err != nil {
		w.t.Fatal(err)
	}
	s := settings.Sources[slices.IndexFunc(settings.Sources, func(s *config.Source) bool { return s.Name == source })]
	r := &providers.Request{Method: http.MethodPost, URL: p.public() + "/in/" + source, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body), ReceivedAt: w.clock.Now()}
	key := s.Keys()[0]
	key.Value = []byte(secret)
	if err := s.Provider.Sign(r, key, fmt.Sprint("evt_", w.sent)); err != nil {
		w.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(w.t.Context(), r.Method, r.URL, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header = r.Header
	peer := "192.0.2.7"
	if source == "shop" && secret != weekSecret {
		peer = "203.0.113.66"
	}
	request.Header.Set("X-Forwarded-For", peer)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// traffic is one event of each sender that is not quiet.
func (w *week) traffic() {
	w.t.Helper()
	if !w.quiet["shop"] {
		w.send("shop", `{"type":"order"}`, weekSecret)
	}
	if !w.quiet["code"] {
		w.send("code", fmt.Sprintf(`{"object_kind":"push","number":%d}`, w.sent), w.signs) // the same body would seem to be replayed
	}
}

// pass lets so many minutes pass, with what the processes do meanwhile, and keeps what they show.
func (w *week) pass(minutes int) {
	w.t.Helper()
	w.settled()
	if err := w.clock.Pass(w.t.Context(), time.Duration(minutes)*time.Minute); err != nil {
		w.t.Fatal(err)
	}
	w.traffic()
	for _, p := range w.processes {
		p.CatchUp(w.t.Context())
	}
	w.keep(minutes)
}

// keep keeps what the processes show as the samples of so many minutes.
func (w *week) keep(minutes int) {
	w.t.Helper()
	scrape := prometheustest.Scrape{}
	for name, p := range w.processes {
		recorder := httptest.NewRecorder()
		p.Admin().ServeHTTP(recorder, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://127.0.0.1/metrics", http.NoBody))
		maps.Copy(scrape, prometheustest.Parse(w.t, recorder.Body.String(), name, w.began))
	}
	w.recorded.Keep(scrape, minutes)
}

// minutes and hours let time pass, in steps of a minute or of twenty.
func (w *week) minutes(n int) {
	w.t.Helper()
	for range n {
		w.pass(1)
	}
}

func (w *week) hours(n int) {
	w.t.Helper()
	for range 3 * n {
		w.pass(20)
	}
}

// settled waits until no attempt is under way, because the clock would pass for it, too, and nothing is due at targets that answer.
func (w *week) settled() {
	w.t.Helper()
	inboxtest.Until(w.t, "what is due to be done", func() bool {
		return w.any().count(`
SELECT (SELECT count(*) FROM outbox WHERE refused_at IS NULL) + (
    SELECT count(*) FROM effect e JOIN route r ON r.id = e.route_id
    WHERE e.state = 'claimed' OR e.next_at < now() AND NOT (r.target = 'ledger' AND $1) AND coalesce(e.reason, '') <> 'paused')`, w.down.Load()) == 0
	})
}

// ask asks the API.
func (w *week) ask(method, path, body string, into any) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.any().AdminAddr().String()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+w.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		w.t.Fatalf("%s: %d %s %v", path, answer.StatusCode, text, err)
	}
	switch into := into.(type) {
	case nil:
	case *string:
		*into = string(text)
	default:
		if err := json.Unmarshal(text, into); err != nil {
			w.t.Fatal(err)
		}
	}
}

// waits returns the kinds of what waits for an operator.
func (w *week) waits() (kinds []attention.Kind) {
	w.t.Helper()
	var found attention.Attention
	w.ask(http.MethodGet, "/api/v1/attention", "", &found)
	for _, item := range found.Data {
		kinds = append(kinds, item.Kind)
	}
	return kinds
}

// named checks that within two minutes the API and the start page of the console name a problem alone, with these words.
func (w *week) named(kind attention.Kind, words ...string) {
	w.t.Helper()
	for range 2 {
		w.minutes(1)
		w.settled()
	}
	if kinds := w.waits(); !slices.Equal(kinds, []attention.Kind{kind}) {
		w.t.Errorf("after two minutes of %s, what waits is %q", kind, kinds)
		return
	}
	var page string
	w.ask(http.MethodGet, "/", "", &page)
	page = html.UnescapeString(page)
	for _, want := range append(words, kind.Action()) {
		if kind.Action() == "" || !strings.Contains(page, want) {
			_, section, _ := strings.Cut(page, "<section>")
			w.t.Errorf("%s: the start page does not say %q:\n%s", kind, want, section)
		}
	}
}

// episode is a part of the week. When it is over, exactly these alerts have fired in it, the operators have read exactly these messages,
// and nothing waits.
func (w *week) episode(name string, alerts, messages []string, do func()) {
	w.t.Helper()
	began := time.Now()
	w.mu.Lock()
	w.told = nil
	w.mu.Unlock()
	w.from = w.recorded.Minutes()
	do()
	w.minutes(8) // what is over is told after five
	w.settled()
	w.minutes(1)
	w.settled()
	w.mu.Lock()
	told := slices.Clone(w.told)
	w.mu.Unlock()
	slices.Sort(told)
	slices.Sort(messages)
	if !slices.Equal(told, messages) {
		w.t.Errorf("%s: the operators read %q, want %q", name, told, messages)
	}
	if kinds := w.waits(); len(kinds) > 0 {
		w.t.Errorf("%s is over, and %q wait", name, kinds)
	}
	w.pass(20) // what happened leaves the ranges of the rules, which look back for a quarter of an hour
	for i := range alerts {
		alerts[i] = "Oncegate" + alerts[i]
	}
	w.asked = append(w.asked, prometheustest.Fired(w.from, w.recorded.Minutes(), alerts...))
	w.t.Logf("%s: minutes %d to %d, in %s", name, w.from, w.recorded.Minutes(), time.Since(began).Round(time.Second))
}
