package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
)

const (
	// reloadWithin is the default of [ReloadConfig.Within]. The API waits for 25 s.
	reloadWithin = 20 * time.Second

	// reloadPatience is how long each step of that start waits for locks of tables.
	reloadPatience = 8 * time.Second

	// retirePatience is how long a retired App may take in addition to an attempt, which ends before its lease.
	retirePatience = 30 * time.Second

	// hurryAfter is how long the retired App may take when the process stops, before its attempts are cancelled. The
	// attempts of the App that leads have as long.
	hurryAfter = 20 * time.Second
)

// Loaded is a configuration that a reload has read.
type Loaded struct {
	Settings *config.Config

	// Logger writes the log as Settings say. Release is called when nothing writes to it any more. It may be nil.
	Logger  *slog.Logger
	Release func()

	withheld []string // names of sources that a member of a Group does not serve yet
}

// release frees the log of a configuration that is not applied.
func (l *Loaded) release() {
	if l.Release != nil {
		l.Release()
	}
}

// ReloadConfig says how a [Server] reloads. Load and Explain are required.
type ReloadConfig struct {
	// Load reads the configuration and everything that it refers to.
	Load func() (*Loaded, error)

	// LoadWith reads the configuration with one source of the database, and without the others. Without it the API defines none.
	LoadWith func(config.Definition) (*config.Config, error)

	// Explain returns a text of one line for an error, without secrets.
	Explain func(error) string

	// Within is how long an App with a new configuration may take to start. It defaults to 20 s.
	Within time.Duration
}

// reloads is what a Server needs to reload. At most two Apps exist at a time: the one that leads, and the one before,
// which ends what it has begun. A reload waits for it.
type reloads struct {
	cfg     ReloadConfig
	busy    chan struct{} // has an element while a reload is under way
	hurry   chan struct{} // closed when retired Apps should cancel their attempts
	cut     context.Context
	cutNow  context.CancelFunc // ends what retired Apps do
	retired chan struct{}      // closed when the App before has ended; guarded by busy

	total *prometheus.CounterVec
	last  prometheus.Gauge
}

// The outcomes of a reload, as the metric has them.
const (
	reloadApplied = "applied"
	reloadInvalid = "invalid"
	reloadFailed  = "failed"
)

func newReloads() *reloads {
	r := &reloads{
		busy: make(chan struct{}, 1), hurry: make(chan struct{}), retired: make(chan struct{}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_config_reloads_total",
			Help: "Reloads of the configuration by how they ended: applied, invalid (it has a mistake or needs a restart) or failed (it could not be started).",
		}, []string{"outcome"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oncegate_config_last_reload_successful",
			Help: "1 if the process runs the configuration that it has read last, 0 if it had to keep the one before.",
		}),
	}
	for _, outcome := range []string{reloadApplied, reloadInvalid, reloadFailed} {
		r.total.WithLabelValues(outcome)
	}
	r.last.Set(1)
	r.cut, r.cutNow = context.WithCancel(context.Background())
	close(r.retired)
	return r
}

// Reloads makes the Server able to reload its configuration while it serves. Call it before [Server.Serve].
func (s *Server) Reloads(cfg ReloadConfig) { s.reloads.cfg = cfg }

// keptError means that a reload has kept the configuration before. Its text is one line.
type keptError struct {
	outcome, text string
}

func (e *keptError) Error() string { return e.text }

// Reload reads the configuration again and applies it, also if nothing in it has changed. The App with the new
// configuration takes over when it is ready. The one before ends in the background what it has begun. If anything fails,
// the configuration stays as it is, and the error says why. Reload first waits for an earlier reload and for the App that
// it retired.
func (s *Server) Reload(ctx context.Context) error {
	_, err := s.reload(ctx, control.ReloadRequest{}, "", nil)
	return err
}

// reloadFor is [Server.Reload] for a request, which has no time to wait for another reload.
func (s *Server) reloadFor(ctx context.Context, request control.ReloadRequest, actor string) (control.Reloaded, error) {
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	out, err := s.reload(context.WithoutCancel(ctx), request, actor, patience.C)
	if kept := (*keptError)(nil); errors.As(err, &kept) {
		return out, &control.Problem{Code: control.CodeNotReloaded, Detail: kept.text}
	}
	return out, err
}

func (s *Server) reload(ctx context.Context, request control.ReloadRequest, actor string, patience <-chan time.Time) (out control.Reloaded, err error) {
	r := s.reloads
	running := s.running()
	if running == nil || r.cfg.Load == nil {
		return out, &keptError{reloadFailed, "the process does not serve, or cannot read its configuration again"}
	}
	// A process that stops does not wait for the reload.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(running, cancel)()
	select {
	case r.busy <- struct{}{}:
		defer func() { <-r.busy }()
	case <-patience:
		return out, &control.Problem{Code: control.CodeReloading, Detail: "another reload is under way"}
	case <-ctx.Done():
		return out, &keptError{reloadFailed, "the process stops"}
	}
	if !request.DryRun {
		select {
		case <-r.retired:
		case <-patience:
			return out, &control.Problem{Code: control.CodeReloading, Detail: "effects that began before the last reload have not ended yet"}
		case <-ctx.Done():
			return out, &keptError{reloadFailed, "the process stops"}
		}
	}
	known := s.lead().settings.Warnings
	out, err = s.reloadNow(ctx, running, request)
	s.tellReload(ctx, request, actor, known, out, err)
	return out, err
}

// tellReload writes how a reload ended to the log and the metrics, with the warnings that the configuration before did not have.
func (s *Server) tellReload(ctx context.Context, request control.ReloadRequest, actor string, known []string, out control.Reloaded, err error) {
	if request.DryRun {
		return
	}
	attrs := []any{slog.String("configuration", out.Configuration)}
	if actor != "" {
		attrs = append(attrs, slog.String("by", actor))
	}
	log := s.lead().log
	if kept := (*keptError)(nil); errors.As(err, &kept) {
		s.reloads.total.WithLabelValues(kept.outcome).Inc()
		s.reloads.last.Set(0)
		attrs[0] = slog.String("configuration", s.lead().settings.Fingerprint())
		log.ErrorContext(ctx, "the configuration was not reloaded; the one before stays in force", append(attrs, slog.String("error", kept.text))...)
		if err := s.lead().app.KeepsConfiguration(context.WithoutCancel(ctx), kept.text); err != nil {
			log.WarnContext(ctx, "operators are not told of it before the next heartbeat", slog.Any("error", err))
		}
		return
	}
	s.reloads.total.WithLabelValues(reloadApplied).Inc()
	s.reloads.last.Set(1)
	told := make(map[string]bool, len(known))
	for _, warning := range known {
		told[warning] = true
	}
	for _, warning := range out.Warnings {
		if !told[warning] {
			log.WarnContext(ctx, "configuration", slog.String("warning", warning))
		}
	}
	log.InfoContext(ctx, "the configuration was reloaded", append(attrs, slog.String("before", out.Before), slog.String("changes", changesText(out.Changes)))...)
}

// shownChanges is how many changes the line of the log names.
const shownChanges = 20

func changesText(all []config.Change) string {
	shown := make([]string, 0, shownChanges+1)
	for i, c := range all {
		if i == shownChanges {
			shown = append(shown, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		shown = append(shown, c.String())
	}
	return strings.Join(shown, ", ")
}

// reloadNow reads, checks and applies the configuration. Its errors are of type *keptError.
func (s *Server) reloadNow(ctx, running context.Context, request control.ReloadRequest) (out control.Reloaded, err error) {
	before := s.lead()
	out = control.Reloaded{DryRun: request.DryRun, Before: before.settings.Fingerprint(), Changes: []config.Change{}, Warnings: []string{}}
	loaded, err := s.reloads.cfg.Load()
	if err != nil {
		return out, s.kept(reloadInvalid, err)
	}
	next := &generation{settings: loaded.Settings, log: loaded.Logger, release: loaded.Release, withheld: loaded.withheld}
	applied := false
	defer func() {
		if !applied {
			s.end(next, func(ctx context.Context) error { return next.app.Stop(ctx) })
		}
	}()
	out.Configuration = loaded.Settings.Fingerprint()
	out.Changes = append(out.Changes, config.Changes(before.settings, loaded.Settings)...)
	out.Warnings = append(out.Warnings, loaded.Settings.Warnings...)
	if err := needsRestart(out.Changes); err != nil && !request.DryRun { // a dry run shows which keys they are
		return out, s.kept(reloadInvalid, err)
	}
	cfg := s.cfg
	cfg.Settings, cfg.Logger, cfg.Patience = loaded.Settings, loaded.Logger, reloadPatience
	quiet := cfg
	quiet.Logger = slog.New(slog.DiscardHandler)
	if err := app.Check(ctx, quiet); err != nil {
		return out, s.kept(reloadInvalid, err)
	}
	within := cmp.Or(s.reloads.cfg.Within, reloadWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the new configuration did not start within %s", within))
	defer cancel()
	if err := before.app.CheckNext(ctx, loaded.Settings); err != nil {
		return out, s.kept(reloadInvalid, cause(ctx, err))
	}
	if request.DryRun {
		return out, nil
	}
	if next.app, err = app.Open(ctx, cfg); err != nil {
		return out, s.kept(reloadFailed, cause(ctx, err))
	}
	if err := s.prepare(ctx, running, next, app.Parts{Listen: s.listens, After: before.app}); err != nil {
		s.reregister(ctx, before)
		return out, s.kept(reloadFailed, cause(ctx, err))
	}
	if err := next.app.Start(ctx); err != nil {
		s.reregister(ctx, before)
		return out, s.kept(reloadFailed, cause(ctx, err))
	}
	applied = true
	s.follow(next)
	s.announce(ctx)
	s.end(before, func(ctx context.Context) error { return before.app.Retire(ctx, s.reloads.hurry) })
	return out, nil
}

// kept returns the error of a reload that keeps the configuration.
func (s *Server) kept(outcome string, err error) error {
	return &keptError{outcome, s.reloads.cfg.Explain(err)}
}

// cause adds why ctx has ended to an error.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil && !errors.Is(err, why) {
		return fmt.Errorf("%w: %w", why, err)
	}
	return err
}

// needsRestart refuses changes that a process cannot make while it runs.
func needsRestart(changes []config.Change) error {
	var keys []string
	for _, c := range changes {
		if c.Fixed {
			keys = append(keys, c.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("%s cannot change while the process runs: restart it, or restore what it had; nothing was applied", strings.Join(keys, ", "))
}

// reregister restores the retention and the sources that the refused App may have written.
func (s *Server) reregister(ctx context.Context, before *generation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reloadPatience)
	defer cancel()
	if err := before.app.Reregister(ctx); err != nil {
		before.log.ErrorContext(ctx, "the database may keep the retention of a configuration that was not applied: reload or restart with the one that should be", slog.Any("error", err))
	}
}

// end ends an App in the background with stop: the one before the App that leads, or one that was not applied. Then it
// releases its log.
func (s *Server) end(old *generation, stop func(context.Context) error) {
	r := s.reloads
	earlier, done := r.retired, make(chan struct{})
	r.retired = done
	go func() {
		defer close(done)
		<-earlier
		if old.app != nil {
			ctx, cancel := context.WithTimeout(r.cut, cmp.Or(old.settings.Work.Lease, inbox.DefaultLease)+retirePatience)
			defer cancel()
			old.end()
			if err := stop(ctx); err != nil {
				old.log.ErrorContext(ctx, "an App did not end cleanly after a reload: what it had claimed is completed as after a crash", slog.Any("error", err))
			}
			if err := s.lead().app.LookAtPeers(ctx); err != nil {
				s.lead().log.WarnContext(ctx, "the processes could not be read after a reload", slog.Any("error", err))
			}
		}
		if old.release != nil {
			old.release()
		}
	}()
}

// endReloads waits for a reload that is under way, whose context has ended, and lets no other one begin.
func (s *Server) endReloads() { s.reloads.busy <- struct{}{} }

// endRetired waits for the App before while the process stops, not longer than ctx.
func (s *Server) endRetired(ctx context.Context) {
	r := s.reloads
	hurry := time.AfterFunc(hurryAfter, func() { close(r.hurry) })
	defer hurry.Stop()
	select {
	case <-r.retired:
	case <-ctx.Done():
		r.cutNow()
		<-r.retired
	}
}

// leading serves each request with the App that leads.
func (s *Server) leading(handler func(*app.App) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(s.lead().app).ServeHTTP(w, r) })
}
