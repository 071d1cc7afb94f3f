package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/oncegate/oncegate/internal/visible"
)

// healthz answers that the process serves requests. It does not check what the process
// needs, because a restart would not bring a database back.
func (a *Admin) healthz(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// readiness is the answer of /readyz.
type readiness struct {
	Status string `json:"status"` // ready, not ready, or what Degraded says

	// Checks contain "ok" or the problem, by the name of the check.
	Checks map[string]string `json:"checks"`
}

func (a *Admin) readyz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), a.cfg.CheckTimeout)
	defer cancel()
	answer := readiness{Status: "ready", Checks: make(map[string]string, len(a.cfg.Checks))}
	status := http.StatusOK
	failed := map[string]error{}
	for i, err := range a.check(ctx) {
		name := a.cfg.Checks[i].Name
		if err == nil {
			answer.Checks[name] = "ok"
			continue
		}
		answer.Status, status = "not ready", http.StatusServiceUnavailable
		answer.Checks[name], failed[name] = err.Error(), err
		a.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "not ready", slog.String("check", name), slog.Any("error", err))
	}
	if degraded := a.degraded(failed); degraded != "" {
		answer.Status, status = degraded, http.StatusOK
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	text, err := json.Marshal(answer)
	if err != nil { // texts always marshal
		return err
	}
	return c.JSONBlob(status, append(visible.JSON(text), '\n'))
}

// degraded returns the status of a process that is ready although checks have failed, or nothing.
func (a *Admin) degraded(failed map[string]error) string {
	if len(failed) == 0 || a.cfg.Degraded == nil {
		return ""
	}
	return a.cfg.Degraded(failed)
}

// check runs all checks at the same time and waits for none beyond ctx.
func (a *Admin) check(ctx context.Context) []error {
	var mu sync.Mutex
	errs := make([]error, len(a.cfg.Checks))
	for i := range errs {
		errs[i] = errors.New("no answer in time")
	}
	var running sync.WaitGroup
	for i, check := range a.cfg.Checks {
		running.Go(func() {
			err := attempt(ctx, check)
			mu.Lock()
			defer mu.Unlock()
			errs[i] = err
		})
	}
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	return append([]error(nil), errs...)
}

func attempt(ctx context.Context, check Check) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("the check panicked with a %T", value)
		}
	}()
	return check.Ready(ctx)
}
