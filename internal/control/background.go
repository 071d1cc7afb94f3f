package control

import (
	"context"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
)

// acting is what a Service needs to change things.
type acting struct {
	store *inbox.Effects
	runs  *replay.Store // plans, runs and cancels

	planning  chan struct{} // has an element while a replay is planned
	comparing chan struct{} // has an element while a run is compared
	stopping  context.Context
	stop      context.CancelFunc
	working   *sync.WaitGroup
}

func newActing(cfg Config) (a acting, err error) {
	if a.store, err = app.NewStore(cfg.Pool, cfg.Keyring); err != nil {
		return a, err
	}
	if a.runs, err = replay.New(replay.Config{Pool: cfg.Plans, Store: a.store}); err != nil {
		return a, err
	}
	a.planning, a.comparing, a.working = make(chan struct{}, 1), make(chan struct{}, 1), &sync.WaitGroup{}
	a.stopping, a.stop = context.WithCancel(context.Background())
	return a, nil
}

// settings returns the configuration, for operations that need it.
func (s *Service) settings() (*config.Config, error) {
	if s.cfg.Settings == nil {
		return nil, &Problem{Code: CodeInvalid, Detail: "this needs the configuration, and only the address of the database is known"}
	}
	return s.cfg.Settings, nil
}

// background runs do while the request is already answered. Its context ends after longest, or when the Service stops.
func (s *Service) background(ctx context.Context, longest time.Duration, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	stop := context.AfterFunc(s.stopping, cancel)
	s.working.Go(func() {
		defer cancel()
		defer stop()
		do(ctx)
	})
}

// Finish waits for the background work. When ctx ends, it cancels the work that still runs.
func (s *Service) Finish(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.stop)
	defer stop()
	s.working.Wait()
}

// Stop cancels the background work and waits for it. Call it before the pools are closed.
func (s *Service) Stop() {
	s.stop()
	s.working.Wait()
}
