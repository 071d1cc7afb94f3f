package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/internal/server"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog"
)

// process is a server that reloads the file of its directory.
type process struct {
	*server.Server
	t       *testing.T
	dir     string
	environ []string
	pool    *pgxpool.Pool
	log     logtest.Buffer
	cancel  context.CancelFunc
	ended   chan error
}

// write replaces the configuration file.
func (p *process) write(text string) {
	p.t.Helper()
	p.file("oncegate.yml", `
listen: { public: "127.0.0.1:0", admin: "127.0.0.1:0" }
`+text)
}

func (p *process) file(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) load() (*config.Config, error) {
	return config.Load(config.Options{File: filepath.Join(p.dir, "oncegate.yml"), Environ: p.environ, Catalog: new(catalog.Lazy)})
}

// serve starts a process with a configuration, on a schema of its own.
func serve(t *testing.T, text string) *process {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	return serveOn(t, url, schema, text, app.Config{Version: "test"}, "SECRET="+secret)
}

// serveOn starts a process with a configuration on a schema. cfg has the version, and may have a clock.
func serveOn(t *testing.T, url, schema, text string, cfg app.Config, environ ...string) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir(), ended: make(chan error, 1), pool: inboxtest.Open(t, url, schema, session.PoolAdmin, 4)}
	p.environ = append([]string{"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema}, environ...)
	p.write(text)
	settings, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(&p.log, nil))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p.cancel = cancel
	cfg.Settings, cfg.Logger, cfg.Receive, cfg.Work = settings, logger, true, true
	p.Server, err = server.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Reloads(server.ReloadConfig{
		Load: func() (*server.Loaded, error) {
			cfg, err := p.load()
			if err != nil {
				return nil, err
			}
			return &server.Loaded{Settings: cfg, Logger: logger}, nil
		},
		Within:  2 * time.Minute, // a start takes ten times as long on a busy machine
		Explain: func(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") },
	})
	go func() { p.ended <- p.Serve(ctx) }()
	select {
	case <-p.Started():
	case err := <-p.ended:
		t.Fatalf("the process ended at its start: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("the log:\n%s", p.log.String())
		}
	})
	return p
}

// stop stops the process and returns its error.
func (p *process) stop() error {
	p.cancel()
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-time.After(time.Minute):
		return errors.New("the process did not stop within a minute")
	}
}

func (p *process) public() string { return "http://" + p.PublicAddr().String() }

func (p *process) count(sql string, args ...any) (n int64) {
	p.t.Helper()
	if err := p.pool.QueryRow(p.t.Context(), sql, args...).Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *process) fingerprint() string {
	p.t.Helper()
	cfg, err := p.load()
	if err != nil {
		p.t.Fatal(err)
	}
	return cfg.Fingerprint()
}

// alone waits until the process has one row among the nodes, and returns its configuration.
func (p *process) alone() string {
	p.t.Helper()
	var nodes []node.Row
	inboxtest.Until(p.t, "the process to have one row", func() (one bool) {
		var err error
		if nodes, err = node.List(p.t.Context(), p.pool); err != nil {
			p.t.Fatal(err)
		}
		return len(nodes) == 1
	})
	return nodes[0].Configuration
}

// metric returns the value of a series of /metrics, as it is written.
func (p *process) metric(series string) string {
	p.t.Helper()
	answer := httptest.NewRecorder()
	p.Admin().ServeHTTP(answer, httptest.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://127.0.0.1/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ask requests a reload by the API.
func (p *process) ask(token, body string) (status int, answer string) {
	p.t.Helper()
	return p.request(token, http.MethodPost, "/reload", body)
}

// show reads what the API shows.
func (p *process) show(token, path string, out any) {
	p.t.Helper()
	status, answer := p.request(token, http.MethodGet, path, "")
	if status != http.StatusOK {
		p.t.Fatalf("GET %s was answered %d: %s", path, status, answer)
	}
	if err := json.Unmarshal([]byte(answer), out); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) request(token, method, path, body string) (status int, answer string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.AdminAddr().String()+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
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

func (p *process) token() string {
	p.t.Helper()
	text, _, err := tokens.NewStore(p.pool, nil).Create(p.t.Context(), tokens.New{Name: "boss", Scopes: []string{string(control.Admin)}, Actor: "ann"})
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// ledger is a target that must get each effect once.
type ledger struct {
	*httptest.Server
	mu    sync.Mutex
	seen  map[string]int // by idempotency key
	last  map[string]int64
	wrong []string
	gate  chan struct{} // if not nil, requests wait for it
	held  atomic.Int64
}

func newLedger(t *testing.T, gate chan struct{}) *ledger {
	t.Helper()
	l := &ledger{seen: map[string]int{}, last: map[string]int64{}, gate: gate}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Number int64  `json:"number"`
		Stream string `json:"stream"`
	}
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &body)
	l.mu.Lock()
	l.seen[r.Header.Get("Idempotency-Key")]++
	if r.URL.Path == "/ordered" {
		if before := l.last[body.Stream]; before >= body.Number {
			l.wrong = append(l.wrong, fmt.Sprintf("%s: %d after %d", body.Stream, body.Number, before))
		}
		l.last[body.Stream] = body.Number
	}
	l.mu.Unlock()
	if l.gate != nil {
		l.held.Add(1)
		<-l.gate
		return
	}
	if r.URL.Path == "/slow" && body.Number%40 == 0 { // longer than a reload takes
		select {
		case <-time.After(1500 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
}

func (l *ledger) effects() (n int64, doubled []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, times := range l.seen {
		if times != 1 {
			doubled = append(doubled, fmt.Sprintf("%s %d times", key, times))
		}
	}
	return int64(len(l.seen)), doubled
}
