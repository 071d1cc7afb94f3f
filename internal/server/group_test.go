package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/definition"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/internal/server"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog"
)

// oneEach has a source in each of two databases, and one that lives where its tenant does.
const oneEach = `
listen: { public: "127.0.0.1:0", admin: "127.0.0.1:0" }
database: { url: %q, schema: %q }
databases: { eu: { url: %q, schema: %q } }
tenants: { acme: { database: eu } }
targets: { ledger: { kind: forward, url: %q, idempotent: true, allow: [127.0.0.0/8] } }
sources:
  github: { provider: github, secrets: [env:SECRET], routes: [{ name: note, target: ledger }] }
  euro: { provider: github, secrets: [env:SECRET], database: eu, routes: [{ name: note, target: ledger }] }
  acme: { provider: github, secrets: [env:SECRET], tenant: acme }
`

// groupProcess is a process with two databases, which it reaches through proxies.
type groupProcess struct {
	*server.Group
	t       *testing.T
	path    string
	text    string
	log     logtest.Buffer
	pools   map[string]*pgxpool.Pool
	proxies map[string]*rig.Proxy
	cancel  context.CancelFunc
	ended   chan error
}

// newGroup makes two databases and a configuration for them, and starts nothing.
func newGroup(t *testing.T) *groupProcess {
	t.Helper()
	p := &groupProcess{t: t, path: filepath.Join(t.TempDir(), "oncegate.yml"), pools: map[string]*pgxpool.Pool{}, proxies: map[string]*rig.Proxy{}}
	var args []any
	for _, name := range []string{"default", "eu"} {
		url, schema := inboxtest.Schema(t)
		proxy, through, err := rig.StartProxy(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		p.proxies[name], p.pools[name] = proxy, inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
		args = append(args, through, schema)
	}
	p.text = fmt.Sprintf(oneEach, append(args, newLedger(t, nil).URL)...)
	p.write(p.text)
	return p
}

func (p *groupProcess) write(text string) {
	p.t.Helper()
	if err := os.WriteFile(p.path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *groupProcess) load() (*config.Config, error) {
	return config.Load(config.Options{File: p.path, Environ: []string{"SECRET=" + secret}, Catalog: new(catalog.Lazy)})
}

// begin serves until stop. It returns the channel that gets the error of the process.
func (p *groupProcess) begin() <-chan error {
	p.t.Helper()
	settings, err := p.load()
	if err != nil {
		p.t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(&p.log, nil))
	p.Group = server.OpenGroup(server.GroupConfig{
		App: app.Config{Settings: settings, Logger: logger, Receive: true, Work: true, Version: "test"},
		Load: func(ctx context.Context, database string) (*server.Loaded, error) {
			settings, err := p.load()
			if err == nil {
				settings.Revision, err = definition.Revision(ctx, p.pools[database])
			}
			return &server.Loaded{Settings: settings, Logger: logger}, err
		},
		Explain: func(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") },
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	p.cancel, p.ended = cancel, make(chan error, 1)
	go func() { p.ended <- p.Serve(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		if p.t.Failed() {
			p.t.Logf("the log:\n%s", p.log.String())
		}
	})
	return p.ended
}

func (p *groupProcess) start() {
	p.t.Helper()
	select {
	case err := <-p.begin():
		p.t.Fatalf("the process ended at its start: %v", err)
	case <-p.Started():
	}
}

func (p *groupProcess) stop() {
	p.t.Helper()
	p.cancel()
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Error(err)
		}
	case <-time.After(time.Minute):
		p.t.Fatal("the process did not stop within a minute")
	}
}

// send delivers to a source and returns the status.
func (p *groupProcess) send(source string, n int64) int {
	p.t.Helper()
	return deliverTo(p.t, "http://"+p.PublicAddr().String()+"/in/"+source, n, fmt.Appendf(nil, `{"action":"opened","number":%d}`, n))
}

func (p *groupProcess) count(database, sql string, args ...any) (n int64) {
	p.t.Helper()
	if err := p.pools[database].QueryRow(p.t.Context(), sql, args...).Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// api makes a request of the API.
func (p *groupProcess) api(method, path, token, database, body string) (status int, answer string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.AdminAddr().String()+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if database != "" {
		r.Header.Set("Oncegate-Database", database)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

// eventPage is a page of the list of events.
type eventPage struct {
	Data            []struct{ ID, Source string }
	HasMore         bool `json:"has_more"`
	Next            string
	Databases, Away []string
}

func (p *groupProcess) events(token, database, query string) (page eventPage) {
	p.t.Helper()
	status, answer := p.api(http.MethodGet, "/api/v1/events?"+query, token, database, "")
	if status != http.StatusOK {
		p.t.Fatalf("events %s of %q were answered %d: %s", query, database, status, answer)
	}
	if err := json.Unmarshal([]byte(answer), &page); err != nil {
		p.t.Fatal(err)
	}
	return page
}

func (p *groupProcess) token(database string) string {
	p.t.Helper()
	text, _, err := tokens.NewStore(p.pools[database], nil).Create(p.t.Context(), tokens.New{Name: "boss", Scopes: []string{string(control.Admin)}, Actor: "ann"})
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// TestEachSourceLivesInOneDatabase checks that the events of a source and their effects are in its database alone, and that a database that
// fails affects only its own sources: they get 503 until it is back.
func TestEachSourceLivesInOneDatabase(t *testing.T) {
	t.Parallel()
	p := newGroup(t)
	p.start()
	for n := range int64(3) {
		for _, source := range []string{"github", "euro", "acme", "euro"} { // each second delivery to euro is a duplicate
			if status := p.send(source, n); status != http.StatusOK {
				t.Fatalf("%s was answered %d", source, status)
			}
		}
	}
	const of = `SELECT count(*) FROM inbox_event v JOIN source s ON s.id = v.source_id WHERE s.name = $1`
	for _, c := range []struct {
		database, source string
		want             int64
	}{{"default", "github", 3}, {"eu", "euro", 3}, {"eu", "acme", 3}, {"default", "euro", 0}, {"eu", "github", 0}} {
		if n := p.count(c.database, of, c.source); n != c.want {
			t.Errorf("%s has %d events of %s, want %d", c.database, n, c.source, c.want)
		}
	}
	for _, database := range []string{"default", "eu"} {
		inboxtest.Until(t, "the effects of "+database, func() bool { return p.count(database, `SELECT count(*) FROM effect WHERE state = 'done'`) == 3 })
	}
	p.proxies["eu"].SetReachable(false)
	inboxtest.Until(t, "eu to be noticed", func() bool { return p.send("euro", 10) == http.StatusServiceUnavailable })
	for n := int64(20); n < 30; n++ {
		if status := p.send("github", n); status != http.StatusOK {
			t.Errorf("github was answered %d while eu is away", status)
		}
	}
	if status, answer := p.api(http.MethodGet, "/readyz", "", "", ""); status != http.StatusOK || !strings.Contains(answer, `"degraded"`) {
		t.Errorf("readiness while eu is away: %d %s", status, answer)
	}
	p.proxies["eu"].SetReachable(true)
	inboxtest.Until(t, "eu to be back", func() bool { return p.send("euro", 10) == http.StatusOK })
	if n := p.count("eu", of, "euro"); n != 4 {
		t.Errorf("eu has %d events of euro, want 4", n)
	}
	p.stop()
}

// TestListsOfSeveralDatabases checks that a list has the rows of all databases by time, with pages that lose and repeat none; that an object is
// found wherever it is; and that a decision about many objects has to name a database.
func TestListsOfSeveralDatabases(t *testing.T) {
	t.Parallel()
	p := newGroup(t)
	p.start()
	var sent []string
	var last string // number of the newest delivery to euro
	for n := range int64(5) {
		for _, source := range []string{"github", "euro", "euro"}[:1+n%2*2] {
			number := 100*n + int64(len(sent))
			if p.send(source, number); source == "euro" {
				last = strconv.FormatInt(number, 10)
			}
			sent = append(sent, source)
		}
	}
	slices.Reverse(sent)
	token := p.token("eu")
	for _, limit := range []int{1, 2, 3, 50} {
		var got []string
		page := p.events(token, "", fmt.Sprintf("limit=%d", limit))
		for {
			for i, row := range page.Data {
				got = append(got, row.Source)
				if home := map[string]string{"github": "default", "euro": "eu"}[row.Source]; page.Databases[i] != home {
					t.Errorf("an event of %s is said to be in %s", row.Source, page.Databases[i])
				}
			}
			if !page.HasMore {
				break
			}
			page = p.events(token, "", fmt.Sprintf("limit=%d&after=%s", limit, page.Next))
		}
		if !slices.Equal(got, sent) {
			t.Errorf("with %d rows a page the list has %v, want %v", limit, got, sent)
		}
	}
	only := p.events(token, "eu", "")
	if len(only.Data) != 4 || only.Databases != nil {
		t.Errorf("eu has %d events, of %v", len(only.Data), only.Databases)
	}
	if status, answer := p.api(http.MethodGet, "/api/v1/events/"+only.Data[0].ID, token, "", ""); status != http.StatusOK || !strings.Contains(answer, `"euro"`) {
		t.Errorf("an event of eu was answered %d: %s", status, answer)
	}
	for _, c := range []struct {
		method, path, database, body string
		status                       int
		says                         string
	}{
		{"GET", "/api/v1/events/" + only.Data[0].ID, "default", "", http.StatusNotFound, ""},
		{"GET", "/api/v1/events", "us", "", http.StatusNotFound, "those of the configuration are default, eu"},
		{"GET", "/api/v1/events?source=nosuch", "", "", http.StatusNotFound, "nosuch"},
		{"GET", "/api/v1/events?after=x", "", "", http.StatusBadRequest, "not a cursor of this list"},
		{"POST", "/api/v1/dead-letters/discard", "", `{"reason":"test","all":true}`, http.StatusBadRequest, "which database?"},
		{"POST", "/api/v1/events/" + only.Data[0].ID + "/erase", "", `{"reason":"test"}`, http.StatusOK, ""},
		{"POST", "/api/v1/sources/euro/pause", "", `{"reason":"test"}`, http.StatusOK, ""},
		{"POST", "/api/v1/targets/ledger/pause", "", `{"reason":"test"}`, http.StatusOK, ""},
	} {
		if status, answer := p.api(c.method, c.path, token, c.database, c.body); status != c.status || !strings.Contains(answer, c.says) {
			t.Errorf("%s %s in %q was answered %d: %s; want %d with %q", c.method, c.path, c.database, status, answer, c.status, c.says)
		}
	}
	for database, want := range map[string]int64{"default": 1, "eu": 2} { // the target in both, the source where it lives
		if n := p.count(database, `SELECT count(*) FROM pause`); n != want {
			t.Errorf("%s has %d pauses, want %d", database, n, want)
		}
	}
	if n := p.count("eu", `SELECT count(*) FROM inbox_event WHERE class = 'erased'`); n != 1 {
		t.Errorf("%d events of eu are erased, want 1", n)
	}
	p.proxies["default"].SetReachable(false)
	inboxtest.Until(t, "default to be missed", func() bool { return slices.Equal(p.events(token, "", "").Away, []string{"default"}) })
	for _, ref := range []string{only.Data[1].ID, url.PathEscape("euro/delivery-" + last)} {
		if status, answer := p.api(http.MethodGet, "/api/v1/events/"+ref, token, "", ""); status != http.StatusOK {
			t.Errorf("while default is away, the event %s of eu was answered %d: %s", ref, status, answer)
		}
	}
	p.stop()
}

// TestStartsWhileADatabaseIsAway checks that the process serves the database that answers, and withholds sources that the other one may have,
// until it is back.
func TestStartsWhileADatabaseIsAway(t *testing.T) {
	t.Parallel()
	p := newGroup(t)
	p.proxies["default"].SetReachable(false)
	p.proxies["eu"].SetReachable(false)
	if err := <-p.begin(); !app.IsAway(err) {
		t.Fatalf("without any database it ended with %v", err)
	}
	p.proxies["eu"].SetReachable(true)
	p.start()
	for _, source := range []string{"github", "euro", "nosuch"} { // euro is new, and default may have it; nosuch may be in default
		if status := p.send(source, 1); status != http.StatusServiceUnavailable {
			t.Errorf("%s was answered %d", source, status)
		}
	}
	p.proxies["default"].SetReachable(true)
	for _, source := range []string{"github", "euro"} {
		inboxtest.Until(t, source+" to be served", func() bool { return p.send(source, 1) == http.StatusOK })
	}
	if status := p.send("nosuch", 1); status != http.StatusNotFound {
		t.Errorf("an unknown source was answered %d", status)
	}
	p.stop()
}

// TestASourceKeepsItsDatabase checks that a configuration is refused as a whole, at a start and at a reload, that would have a source begin anew in
// another database, where no key of it is known.
func TestASourceKeepsItsDatabase(t *testing.T) {
	t.Parallel()
	p := newGroup(t)
	p.start()
	if status := p.send("euro", 1); status != http.StatusOK {
		t.Fatalf("answered %d", status)
	}
	moved := strings.Replace(p.text, "database: eu, routes", "routes", 1)
	p.write(moved)
	if err := p.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "sources.euro: its events and keys are in the database eu") {
		t.Errorf("the reload ended with %v", err)
	}
	if status := p.send("euro", 1); status != http.StatusOK {
		t.Errorf("after the refused reload euro was answered %d", status)
	}
	p.write(strings.Replace(p.text, "databases: { eu:", "databases: { us:", 1))
	if err := p.Reload(t.Context()); err == nil {
		t.Error("other databases were applied")
	}
	p.write(strings.Replace(p.text, "  acme: {", "  more: { provider: github, secrets: [env:SECRET], database: eu }\n  acme: {", 1))
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := p.send("more", 1); status != http.StatusOK {
		t.Errorf("the new source was answered %d", status)
	}
	p.write(p.text)
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := p.send("more", 2); status != http.StatusNotFound {
		t.Errorf("the removed source was answered %d", status)
	}
	p.stop()
	p.write(moved)
	if err := <-p.begin(); err == nil || !strings.Contains(err.Error(), "restore `database: eu`") {
		t.Errorf("the start ended with %v", err)
	}
	if n := p.count("default", `SELECT count(*) FROM source WHERE name = 'euro'`); n != 0 {
		t.Error("the other database has the source now")
	}
}
