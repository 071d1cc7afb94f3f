package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/jobs/effect"
)

// RouteProbe configures how a route's indeterminate effects are probed.
type RouteProbe struct {
	// Route, Source and Target are for reports.
	Route, Source, Target string

	Prober effect.Prober

	// Every is how long to wait before asking about the same effect again. The wait doubles each
	// time, up to 1 h. It defaults to 30 s.
	Every time.Duration

	// AbsentAfter is how old an attempt must be before the prober believes a target that
	// does not know it, because a younger request may still be on its way. It defaults to
	// 10 min.
	AbsentAfter time.Duration
}

// The defaults of [RouteProbe].
const (
	DefaultProbeEvery  = 30 * time.Second
	DefaultAbsentAfter = 10 * time.Minute
	maxProbeEvery      = time.Hour
)

// ProberConfig configures a [Prober]. Store and Logger are required.
type ProberConfig struct {
	Store  *inbox.Effects
	Logger *slog.Logger

	// Routes are the routes whose target can be asked, by id.
	Routes map[int32]RouteProbe

	// Every is how often the prober looks for effects to ask about. It defaults to 10 s.
	Every time.Duration

	// Observe is called with the result of each probe, if set. It must not block.
	Observe func(ProbeReport)

	// Fits returns why the prober must not ask now; see [Config].
	Fits func() error

	// Now defaults to time.Now.
	Now func() time.Time
}

// ProbeReport is the result of one probe.
type ProbeReport struct {
	Effect, Event         inbox.ID
	Source, Route, Target string
	Outcome               effect.ProbeOutcome

	// Resolved means that the probe ended the effect or made it be sent again.
	Resolved bool
}

// Prober resolves indeterminate effects by asking their targets. It needs no River because it reads
// our own tables. Several nodes may ask about the same effect: a probe changes nothing at the
// target, and only one answer is recorded.
type Prober struct {
	cfg ProberConfig

	asked map[inbox.ID]asked // of the run under way alone

	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
}

type asked struct {
	next  time.Time
	pause time.Duration
	run   int
}

// probePage is how many effects of a route one run asks about at most.
const probePage = 100

// NewProber makes a Prober, or reports everything that is wrong with cfg.
func NewProber(cfg ProberConfig) (*Prober, error) {
	if cfg.Store == nil || cfg.Logger == nil {
		return nil, errors.New("the prober needs the store of effects and a logger")
	}
	cfg.Every = orDefault(cfg.Every, 10*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Every < 0 {
		return nil, errors.New("the prober's pause must not be negative")
	}
	for id, r := range cfg.Routes {
		if r.Prober == nil || r.Every < 0 || r.AbsentAfter < 0 {
			return nil, errors.New("the prober's routes need a probe, and times that are not negative")
		}
		r.Every, r.AbsentAfter = orDefault(r.Every, DefaultProbeEvery), orDefault(r.AbsentAfter, DefaultAbsentAfter)
		cfg.Routes[id] = r
	}
	return &Prober{cfg: cfg, asked: map[inbox.ID]asked{}}, nil
}

// Start starts probing, until Stop. Without routes it does nothing.
func (p *Prober) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done != nil || len(p.cfg.Routes) == 0 {
		return nil
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.done = make(chan struct{})
	go p.loop(ctx, p.done)
	return nil
}

// Stop cancels the current run and returns when it has ended.
func (p *Prober) Stop(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done != nil {
		p.stop()
		<-p.done
	}
	return nil
}

func (p *Prober) loop(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(p.cfg.Every)
	defer ticker.Stop()
	for run := 1; ; run++ {
		if p.cfg.Fits != nil && p.cfg.Fits() != nil {
			// a newer process probes
		} else if err := p.run(ctx, run); err != nil && ctx.Err() == nil {
			p.cfg.Logger.WarnContext(ctx, "probing indeterminate effects", "error", clean(err.Error()))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// run asks about the effects whose pause is over. Each route has a goroutine, so a slow target
// delays only its own routes.
func (p *Prober) run(ctx context.Context, run int) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for id, route := range p.cfg.Routes {
		all.Go(func() {
			if err := p.route(ctx, id, route, run, &mu); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	for id, a := range p.asked { // those that are no longer indeterminate
		if a.run != run {
			delete(p.asked, id)
		}
	}
	return errors.Join(errs...)
}

func (p *Prober) route(ctx context.Context, id int32, route RouteProbe, run int, mu *sync.Mutex) error {
	if p.cfg.Store.Paused(id) {
		return nil // a paused target gets no questions either
	}
	questions := 0
	for after := (inbox.ID{}); ; {
		page, err := p.cfg.Store.Indeterminate(ctx, id, after, probePage)
		if err != nil {
			return err
		}
		for i := range page {
			e := &page[i]
			after = e.Effect
			if e.Elsewhere != "" {
				continue // this target never got it, so its answer would be meaningless
			}
			if p.due(e.Effect, route, run, questions >= probePage, mu) {
				questions++
				p.probe(ctx, e, route)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if len(page) < probePage {
			return nil
		}
	}
}

// due reports whether to ask about the effect now. If so, it sets the time of the next question.
func (p *Prober) due(id inbox.ID, route RouteProbe, run int, enough bool, mu *sync.Mutex) bool {
	mu.Lock()
	defer mu.Unlock()
	now := p.cfg.Now()
	a := p.asked[id]
	a.run = run
	due := !enough && !now.Before(a.next)
	if due {
		a.pause = min(max(2*a.pause, route.Every), maxProbeEvery)
		a.next = now.Add(a.pause)
	}
	p.asked[id] = a
	return due
}

func (p *Prober) probe(ctx context.Context, e *inbox.Indeterminate, route RouteProbe) {
	found := safeProbe(ctx, route.Prober, &effect.Call{
		Event: effect.Event{ID: e.Event.String(), Source: route.Source, EventID: e.EventID, Type: e.Type},
		Route: route.Route, Key: e.Key,
	})
	report := ProbeReport{Effect: e.Effect, Event: e.Event, Source: route.Source, Route: route.Route, Target: route.Target, Outcome: found.Outcome}
	as := decide.Resolution("")
	switch {
	case found.Outcome == effect.ProbeDone:
		as = decide.ResolveDone
	case found.Outcome == effect.ProbeAbsent && e.Age >= route.AbsentAfter:
		as = decide.ResolveResend
	}
	attrs := []slog.Attr{
		slog.String("source", route.Source), slog.String("route", route.Route), slog.String("target", route.Target),
		slog.String("event", e.Event.String()), slog.String("effect", e.Effect.String()),
		slog.String("outcome", string(found.Outcome)), slog.String("code", found.Code),
	}
	if as != "" {
		err := decide.New(p.cfg.Store).Resolve(ctx, decide.Resolve{
			Effect: e.Effect, As: as, Version: e.Version, Revision: e.Revision, Actor: "probe", Reason: "the target answered " + found.Code + " for the key", Result: found.Stored,
		})
		switch {
		case err == nil:
			report.Resolved = true
			p.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "effect resolved", append(attrs, slog.String("as", string(as)))...)
		case errors.Is(err, inbox.ErrCalledAgain):
			// An operator who knows of the later call decides.
			p.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "effect stays indeterminate: a later call repeats its operation", attrs...)
		case !errors.Is(err, inbox.ErrState) && !errors.Is(err, inbox.ErrNotFound) && ctx.Err() == nil:
			p.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "resolving an effect failed", append(attrs, slog.String("error", clean(err.Error())))...)
		}
	} else {
		p.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "effect stays indeterminate", attrs...)
	}
	if p.cfg.Observe != nil {
		p.cfg.Observe(report)
	}
}

// safeProbe keeps a probe's panic from ending the process.
func safeProbe(ctx context.Context, prober effect.Prober, call *effect.Call) (r effect.ProbeResult) {
	defer func() {
		if recover() != nil {
			r = effect.ProbeResult{Outcome: effect.ProbeUnknown}
		}
	}()
	return prober.Probe(ctx, call)
}
