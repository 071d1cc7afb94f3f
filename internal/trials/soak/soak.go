package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/trials/rig"
	"github.com/oncegate/oncegate/migrations"
)

// Options choose what a soak is. URL, Schema and Dir are required.
type Options struct {
	// Length is how long deliveries are made, WarmUp how much of that is not judged. They
	// default to 20 min and a quarter of Length.
	Length, WarmUp time.Duration

	// Rate is how many deliveries are made a second. It defaults to 300.
	Rate int

	// MemoryLimit is the binary's GOMEMLIMIT. It defaults to 256MiB.
	MemoryLimit string

	// LogEvents is the binary's log.events; empty is its default.
	LogEvents string

	// Leak is how many bytes the binary loses with each delivery: a planted fault, which
	// the verdict must notice. 0 is none.
	Leak int

	// URL and Schema are where the database is; the schema is made. It must be a server of
	// this machine.
	URL, Schema string

	// Dir takes the binary, the configuration and the log.
	Dir string

	// Progress is told about the run; it may be nil.
	Progress func(format string, args ...any)
}

// Report is what came of a soak.
type Report struct {
	Counts  Counts
	Planned int
	Samples []Sample
	Trends  []Trend

	// Forwarded is how many requests the target has got.
	Forwarded int64

	// Log is the size of the log at the end, in bytes.
	Log int64
}

// Verdict is one line; err says what was wrong.
func (r *Report) Verdict() (verdict string, err error) {
	errs := []error{r.Counts.wrong(r.Planned)}
	for i := range r.Trends {
		if t := &r.Trends[i]; t.Missing {
			errs = append(errs, fmt.Errorf("%s: too few samples", t.Name))
		} else if t.Fails {
			errs = append(errs, fmt.Errorf("%s grew by %.1f %s, which is more than %.1f", t.Name, t.Grown, t.Unit, t.Allowed))
		}
	}
	if r.Forwarded < int64(r.Counts.New) {
		errs = append(errs, fmt.Errorf("%d effects were forwarded of %d", r.Forwarded, r.Counts.New))
	}
	c := &r.Counts
	about := fmt.Sprintf("%d deliveries (%d new, %d duplicates, %d conflicts, %d refused, %d put off), %d forwarded, %d figures, log %.1f KiB",
		c.Deliveries(), c.New, c.Duplicates, c.Conflicts, c.Refused, c.PutOff, r.Forwarded, len(r.Trends), float64(r.Log)/1024)
	if err = errors.Join(errs...); err != nil {
		return "FAILED: " + about, err
	}
	return "PASSED: nothing grows that must not; " + about, nil
}

const configuration = `
work: { sweep_every: 5s }
classes: { default: { body: 7d, effects: 60s, refusals: 60s } }
targets:
  sink: { kind: forward, url: "http://%s/hooks", idempotent: true, retry_on: [503], retry: { attempts: 20, base: 100ms, max: 1s } }
sources:
  stripe:
    provider: stripe
    secrets: [env:STRIPE_SECRET]
    routes: [{ name: sink, target: sink }]
`

// Run makes one soak. It ends by itself, and ends what it has started.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if o.Length == 0 {
		o.Length = 20 * time.Minute
	}
	if o.WarmUp == 0 {
		o.WarmUp = o.Length / 4
	}
	if o.Rate == 0 {
		o.Rate = 300
	}
	if o.MemoryLimit == "" {
		o.MemoryLimit = "256MiB"
	}
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	if o.Length < 0 || o.WarmUp < 0 || o.WarmUp >= o.Length || o.Rate < 0 {
		return nil, fmt.Errorf("a soak of %s with %s of warm-up at %d/s: the warm-up must be shorter, and nothing negative", o.Length, o.WarmUp, o.Rate)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Length+5*time.Minute)
	defer cancel()
	w := &world{options: o}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.prepare(ctx); err != nil {
		return nil, rig.Early(err, w.repeat(), w.log())
	}
	report, err := w.run(ctx)
	if err != nil {
		return nil, rig.Early(err, w.repeat(), w.log())
	}
	return report, nil
}

type world struct {
	options       Options
	public, admin string
	db            *pgx.Conn
	target        *http.Server
	forwarded     atomic.Int64
	process       *rig.Process
}

func (w *world) log() string { return filepath.Join(w.options.Dir, "serve.log") }

func (w *world) repeat() string {
	return fmt.Sprintf("./scripts/soak -length %s -rate %d", w.options.Length, w.options.Rate)
}

func (w *world) close() error {
	var errs []error
	if w.process != nil {
		errs = append(errs, w.process.Stop(30*time.Second))
	}
	if w.target != nil {
		errs = append(errs, w.target.Close())
	}
	if w.db != nil {
		errs = append(errs, w.db.Close(context.Background()))
	}
	return errors.Join(errs...)
}

func (w *world) prepare(ctx context.Context) error {
	o, binary := w.options, filepath.Join(w.options.Dir, "oncegate")
	var tags []string
	if o.Leak > 0 {
		tags = append(tags, "failpoint")
	}
	if err := rig.Build(ctx, "./cmd/oncegate", binary, tags...); err != nil {
		return err
	}
	if err := migrations.Up(ctx, o.URL, o.Schema); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	cfg, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return fmt.Errorf("reading the database's address: %w", err)
	}
	cfg.RuntimeParams["search_path"] = o.Schema
	if w.db, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	for _, address := range []*string{&w.public, &w.admin} {
		if *address, err = rig.FreeAddress(); err != nil {
			return err
		}
	}
	sink, err := w.serveTarget()
	if err != nil {
		return err
	}
	config := filepath.Join(o.Dir, "oncegate.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, configuration, sink), 0o600); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	environ := []string{
		"DATABASE_URL=" + o.URL, "ONCEGATE_SCHEMA=" + o.Schema, "ONCEGATE_CONFIG=" + config, "ONCEGATE_PUBLIC=" + w.public,
		"ONCEGATE_ADMIN=" + w.admin, "STRIPE_SECRET=" + secret, "GOMEMLIMIT=" + o.MemoryLimit,
	}
	if o.LogEvents != "" {
		environ = append(environ, "ONCEGATE_LOG_EVENTS="+o.LogEvents)
	}
	if o.Leak > 0 {
		environ = append(environ, fmt.Sprintf("ONCEGATE_FAILPOINT=gate-leak:%d", o.Leak))
	}
	if w.process, err = rig.Start(w.log(), environ, binary, "serve"); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return w.process.Ready(ready, "http://"+w.admin+"/readyz")
}

// serveTarget answers 200, and 503 to one request in a hundred.
func (w *world) serveTarget() (address string, err error) {
	if address, err = rig.FreeAddress(); err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", address) //nolint:noctx // binds at once or fails
	if err != nil {
		return "", fmt.Errorf("listening: %w", err)
	}
	w.target = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if w.forwarded.Add(1)%100 == 0 {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = w.target.Serve(listener) }() // ends when it is closed
	return address, nil
}

// samplesWanted is about how many samples a soak takes.
const samplesWanted = 240

func (w *world) run(ctx context.Context) (*Report, error) {
	o := w.options
	l := &load{
		url: "http://" + w.public + "/in/stripe", rate: o.Rate, began: time.Now(),
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: senders}},
	}
	defer l.client.CloseIdleConnections()
	m := &measure{db: w.db, schema: o.Schema, admin: w.admin, log: w.log(), load: l, client: &http.Client{Timeout: 10 * time.Second}}
	defer m.client.CloseIdleConnections()
	report := &Report{Planned: int(o.Length.Seconds() * float64(o.Rate))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(ctx, o.Length)
	}()
	every := min(max(o.Length/samplesWanted, 100*time.Millisecond), 5*time.Second)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for told := time.Duration(0); ; {
		select {
		case <-done:
			return report, w.finish(ctx, l, report)
		case <-w.process.Done():
			return nil, fmt.Errorf("the process ended by itself: %w", errors.Join(w.process.Err(), rig.ErrEnded))
		case <-ticker.C:
			s, err := m.sample(ctx, time.Since(l.began))
			if err != nil {
				return nil, err
			}
			if report.Samples = append(report.Samples, s); s.At-told >= time.Minute {
				told = s.At
				o.Progress("%s: rss %.0f MiB, %d deliveries, p99 %.1f ms, %.0f unsettled, log %.0f KiB",
					s.At.Round(time.Second), s.Values["rss"], l.total().New, s.Values["latency p99"], s.Values["unsettled"], s.Values["log"])
			}
		}
	}
}

// finish waits until everything is settled, stops the process and judges.
func (w *world) finish(ctx context.Context, l *load, report *Report) error {
	for limit := time.Now().Add(2 * time.Minute); ; {
		var unsettled int
		if err := w.db.QueryRow(ctx, `SELECT count(*) FROM effect WHERE next_at IS NOT NULL`).Scan(&unsettled); err != nil {
			return fmt.Errorf("waiting for the last effects: %w", err)
		}
		if unsettled == 0 {
			break
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d effects are not settled two minutes after the last delivery", unsettled)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err := w.process.Stop(30 * time.Second); err != nil {
		return err
	}
	report.Counts, report.Forwarded = l.total(), w.forwarded.Load()
	info, err := os.Stat(w.log())
	if err != nil {
		return fmt.Errorf("measuring the log: %w", err)
	}
	report.Log = info.Size()
	report.Trends = Judge(report.Samples, w.options.WarmUp)
	return nil
}
