// Package admin answers requests for health, readiness and metrics. [New] makes an [Admin] of a gatherer of metrics and
// of checks; [Admin.Handler] serves /healthz, /readyz and /metrics, [Admin.Mount] adds the other pages that a program
// serves there, and [Admin.NewServer] makes a server for a separate address. It must never be reachable where
// deliveries are.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check is one condition of readiness.
type Check struct {
	// Name is shown; unique.
	Name string

	// Ready returns why the process cannot work, in a text without secrets. It
	// must heed ctx.
	Ready func(ctx context.Context) error
}

// Config configures an [Admin]. Gatherer and Logger are required.
type Config struct {
	Gatherer prometheus.Gatherer
	Logger   *slog.Logger

	// Checks must all pass for the process to be ready, except those that Degraded excuses.
	Checks []Check

	// Degraded decides about checks that have failed, by their names. If it returns a status, the process is ready all the same
	// and answers with this status. nil means that every check must pass.
	Degraded func(failed map[string]error) (status string)

	// Hosts are names, without a port, at which /metrics is answered in addition to addresses, localhost, names without a
	// dot and names that only a private network resolves, such as those below .internal. This keeps a
	// page of another site, whose name has been made to resolve to this machine, from reading the metrics in a browser.
	Hosts []string

	// CheckTimeout bounds all checks together. It defaults to 2 s.
	CheckTimeout time.Duration
}

// Admin serves the private listener.
type Admin struct {
	cfg     Config
	echo    *echo.Echo
	anyHost bool
}

// New checks the configuration and makes an Admin.
func New(cfg Config) (*Admin, error) {
	var errs []error
	if cfg.Gatherer == nil {
		errs = append(errs, errors.New("admin: Gatherer is required"))
	}
	if cfg.Logger == nil {
		errs = append(errs, errors.New("admin: Logger is required"))
	}
	if cfg.CheckTimeout < 0 {
		errs = append(errs, errors.New("admin: CheckTimeout must not be negative"))
	}
	seen := make(map[string]bool, len(cfg.Checks))
	for _, check := range cfg.Checks {
		if check.Name == "" || check.Ready == nil {
			errs = append(errs, fmt.Errorf("admin: check %q: Name and Ready are required", check.Name))
		}
		if seen[check.Name] {
			errs = append(errs, fmt.Errorf("admin: check %q is given twice", check.Name))
		}
		seen[check.Name] = true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.CheckTimeout == 0 {
		cfg.CheckTimeout = 2 * time.Second
	}
	a := &Admin{cfg: cfg, echo: echo.New()}
	a.echo.HideBanner, a.echo.HidePort = true, true
	a.echo.IPExtractor = echo.ExtractIPDirect()
	a.echo.HTTPErrorHandler = answerError
	a.echo.GET("/healthz", a.healthz)
	a.echo.GET("/readyz", a.readyz)
	a.echo.GET("/metrics", a.atOwnHost(promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError, // one broken collector must not hide the others
	})))
	return a, nil
}

// Handler serves /healthz, /readyz, /metrics and the mounted handler.
func (a *Admin) Handler() http.Handler { return a.echo }

// Mount makes handler serve all other paths, including those that it does not know. Call it once, before the Admin
// serves.
func (a *Admin) Mount(handler http.Handler) {
	a.echo.Any("/*", echo.WrapHandler(compressed(handler)))
}

// NewServer makes the HTTP server for the private listener.
func (a *Admin) NewServer() *http.Server {
	return &http.Server{
		Handler:           a.echo,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       75 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(a.cfg.Logger.Handler(), slog.LevelDebug),
	}
}

// answerError answers with a status and no body.
func answerError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	status := http.StatusInternalServerError
	if known, ok := errors.AsType[*echo.HTTPError](err); ok {
		status = known.Code
	}
	_ = c.NoContent(status) // the peer is gone, and no other client needs the answer
}
