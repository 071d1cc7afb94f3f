package soak

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Options say what a soak is. URL, Schema and Dir are required.
type Options struct {
	// Length is how long deliveries are made; it defaults to 20 min. WarmUp is the part of it that is not judged; it
	// defaults to a quarter.
	Length, WarmUp time.Duration

	// Rate is how many deliveries are made a second. It defaults to 300.
	Rate int

	// MemoryLimit is the binary's GOMEMLIMIT. It defaults to 256MiB.
	MemoryLimit string

	// LogEvents is the binary's log.events; empty is its default.
	LogEvents string

	// Leak is a planted fault that the verdict must notice: how many bytes the binary loses with each delivery. 0 is
	// none.
	Leak int

	// URL is the database, on this machine, and Schema the schema, which is made.
	URL, Schema string

	// Dir is the directory of the binary, the configuration and the log.
	Dir string

	// Progress reports the run; it may be nil.
	Progress func(format string, args ...any)
}

// Report is the outcome of a soak.
type Report struct {
	Counts  Counts
	Planned int
	Samples []Sample
	Trends  []Trend

	// Forwarded is how many requests the target has received.
	Forwarded int64

	// Log is the size of the log at the end, in bytes.
	Log int64
}

// Verdict returns the outcome in one line, and an error that says what was wrong.
func (r *Report) Verdict() (verdict string, err error) {
	errs := []error{r.Counts.validate(r.Planned)}
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
		c.Deliveries(), c.New, c.Duplicates, c.Conflicts, c.Refused, c.Unavailable, r.Forwarded, len(r.Trends), float64(r.Log)/1024)
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

// Run makes one soak. It ends after Options.Length and ends every process that it has started.
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
	if o.Length < 0 || o.WarmUp < 0 || o.WarmUp >= o.Length || o.Rate < 0 {
		return nil, fmt.Errorf("a soak of %s with %s of warm-up at %d/s: the warm-up must be shorter, and nothing negative", o.Length, o.WarmUp, o.Rate)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Length+5*time.Minute)
	defer cancel()
	w, err := lab.NewWorld(ctx, lab.WorldConfig{Name: "soak", Dir: o.Dir, DSN: o.URL, Failpoints: o.Leak > 0})
	if err != nil {
		return nil, err
	}
	c := &campaign{Campaign: lab.NewCampaign(w, o.Schema, o.Progress, "STRIPE_SECRET="+secret, "GOMEMLIMIT="+o.MemoryLimit), options: o}
	defer func() { err = c.End(err, fmt.Sprintf("./scripts/soak -length %s -rate %d", o.Length, o.Rate)) }()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	return c.run(ctx)
}

// campaign is one soak.
type campaign struct {
	*lab.Campaign
	options   Options
	forwarded atomic.Int64
	node      *rig.Node
}

func (c *campaign) prepare(ctx context.Context) error {
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	address, err := c.Target(http.HandlerFunc(c.answer))
	if err != nil {
		return err
	}
	if err := c.Configure(configuration, address); err != nil {
		return err
	}
	var cfg rig.NodeConfig
	if c.options.LogEvents != "" {
		cfg.Env = append(cfg.Env, "ONCEGATE_LOG_EVENTS="+c.options.LogEvents)
	}
	if c.options.Leak > 0 {
		cfg.Failpoint = fmt.Sprintf("gate-leak:%d", c.options.Leak)
	}
	c.node, err = c.Serve(ctx, cfg)
	return err
}

// answer answers a request to the target with 200, and one in a hundred with 503.
func (c *campaign) answer(w http.ResponseWriter, _ *http.Request) {
	if c.forwarded.Add(1)%100 == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// sampleCount is about how many samples a soak takes.
const sampleCount = 240

func (c *campaign) run(ctx context.Context) (*Report, error) {
	o := c.options
	l := &load{
		url: c.node.SourceURL("stripe"), rate: o.Rate, began: time.Now(), client: rig.NewClient(senders, 20*time.Second),
	}
	defer l.client.CloseIdleConnections()
	m := &sampler{db: c.DB, schema: o.Schema, node: c.node, load: l}
	report := &Report{Planned: int(o.Length.Seconds() * float64(o.Rate))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(ctx, o.Length)
	}()
	every := min(max(o.Length/sampleCount, 100*time.Millisecond), 5*time.Second)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for told := time.Duration(0); ; {
		select {
		case <-done:
			return report, c.finish(ctx, l, report)
		case <-c.node.Done():
			return nil, fmt.Errorf("the process ended by itself: %w", errors.Join(c.node.Err(), rig.ErrEnded))
		case <-ticker.C:
			s, err := m.sample(ctx, time.Since(l.began))
			if err != nil {
				return nil, err
			}
			if report.Samples = append(report.Samples, s); s.At-told >= time.Minute {
				told = s.At
				c.Progress("%s: rss %.0f MiB, %d deliveries, p99 %.1f ms, %.0f unsettled, log %.0f KiB",
					s.At.Round(time.Second), s.Values["rss"], l.total().New, s.Values["latency p99"], s.Values["unsettled"], s.Values["log"])
			}
		}
	}
}

// finish waits until everything is settled, stops the process and judges.
func (c *campaign) finish(ctx context.Context, l *load, report *Report) error {
	if err := c.Rest(ctx, 2*time.Minute); err != nil {
		return err
	}
	if err := c.node.Stop(30 * time.Second); err != nil {
		return err
	}
	report.Counts, report.Forwarded = l.total(), c.forwarded.Load()
	info, err := os.Stat(c.node.Log)
	if err != nil {
		return fmt.Errorf("measuring the log: %w", err)
	}
	report.Log = info.Size()
	report.Trends = Judge(report.Samples, c.options.WarmUp)
	return nil
}
