package app

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/sleep"
)

const (
	// readyPause is how often an App that follows another one asks whether it is ready.
	readyPause = 20 * time.Millisecond

	// quickRequests is how long the parts of a retired App keep working for requests of the private listener that it let
	// in. /readyz would otherwise say that they have stopped. Longer requests are waited for later.
	quickRequests = 3 * time.Second
)

// awaitReady waits until every part of an App that follows another one is ready to work. A tenth of the time that its start has left stays
// for the steps after it. If it gives up, it returns an error unless the App before is not ready either.
func (a *App) awaitReady(ctx context.Context) error {
	if deadline, limited := ctx.Deadline(); limited {
		left := time.Until(deadline) //nolint:forbidigo // contexts use the clock of the machine
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-left/10))
		defer cancel()
	}
	for {
		err := a.Ready(ctx)
		if err == nil {
			return nil
		}
		if sleep.For(ctx, readyPause) != nil {
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) && a.parts.After.Ready(context.WithoutCancel(ctx)) != nil {
				return nil
			}
			return err
		}
	}
}

// Retire stops an App from which another one of this process has taken over. It fetches no effects, answers the requests
// that it let in, and ends the effects that it has claimed. Unlike Stop it cancels none of them before hurry is closed.
func (a *App) Retire(ctx context.Context, hurry <-chan struct{}) error {
	a.retired.Store(true)
	finished := make(chan error, 1)
	go func() {
		if a.work == nil {
			finished <- nil
			return
		}
		// Other processes hand their effects over to the App that has taken over.
		finished <- errors.Join(a.fleet.Work(ctx, nil), a.work.Finish(ctx, hurry))
	}()
	quick, cancel := context.WithTimeout(ctx, quickRequests)
	defer cancel()
	_ = a.adminDoor.shut(quick) // the requests that are left are waited for below
	return errors.Join(a.cleanups.run(ctx), <-finished)
}

// Retired reports whether Retire was called: the App stops, and the process does not.
func (a *App) Retired() bool { return a.retired.Load() }

// Reregister writes the retention and the sources of an App again, after an App that was to follow it has written its
// own and was refused. It changes nothing of what the App does.
func (a *App) Reregister(ctx context.Context) error {
	_, err := a.registerSources(ctx)
	return err
}

// CheckNext returns why the sources of another configuration could not be registered. It writes nothing.
func (a *App) CheckNext(ctx context.Context, next *config.Config) error {
	_, err := CheckRegistration(ctx, a.adminPool, next)
	return err
}

// LookAtPeers reads the table of processes now, instead of with the next heartbeat.
func (a *App) LookAtPeers(ctx context.Context) error { return a.fleet.Peers().Look(ctx) }

// Collect adds metrics to the metrics of this process.
func (a *App) Collect(all ...prometheus.Collector) error { return a.collect(all...) }
