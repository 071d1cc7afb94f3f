package kills

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// workerSlot is a place for one worker. When a worker is killed, another one takes its slot. The slot has its own
// targets and its own proxy to PostgreSQL, so that the campaign knows whose request a target is holding.
type workerSlot struct {
	number  int
	node    rig.NodeConfig
	proxy   *rig.Proxy
	targets []*target
	worker  *rig.Node
}

// newWorkerSlot makes a slot without a worker. If it fails, the slot contains what was opened, so that the caller
// can close it.
func (c *Campaign) newWorkerSlot(number int) (*workerSlot, error) {
	s := &workerSlot{number: number}
	var dsn string
	var err error
	if s.proxy, dsn, err = rig.StartProxy(c.world.DSN(), applyWord, sendStartWord); err != nil {
		return s, err
	}
	for _, r := range []Route{Idempotent, Once, Mail} {
		t, err := startTarget(number, r, c.received, c.script)
		if err != nil {
			return s, err
		}
		s.targets = append(s.targets, t)
	}
	s.node = rig.NodeConfig{
		Name: c.schema + "-" + strconv.Itoa(number), Config: c.config, Schema: c.schema, Role: "work", DSN: dsn,
		Env: append(c.environ(), "KILLS_IDEMPOTENT=http://"+s.targets[0].address()+"/", "KILLS_ONCE=http://"+s.targets[1].address()+"/",
			"KILLS_MAIL=smtp://"+s.targets[2].address(), "FAILPOINT_URL=http://"+s.targets[0].address()+"/"),
	}
	return s, nil
}

func (s *workerSlot) close() error {
	var errs []error
	if s.worker != nil {
		errs = append(errs, s.worker.Kill())
	}
	for _, t := range s.targets {
		errs = append(errs, t.close())
	}
	if s.proxy != nil {
		errs = append(errs, s.proxy.Close())
	}
	return errors.Join(errs...)
}

// startWorker starts a worker in the slot and waits until it is ready. settings are added to its environment.
func (c *Campaign) startWorker(ctx context.Context, s *workerSlot, failpoint string, settings ...string) (err error) {
	cfg := s.node
	cfg.Env = slices.Concat(cfg.Env, settings)
	if cfg.Failpoint = failpoint; failpoint == "" {
		cfg.Failpoint = c.options.Defect.failpoint()
	}
	c.summary.Starts++
	if failpoint != clockAhead {
		s.worker, err = c.world.Serve(ctx, cfg)
		return err
	}
	if s.worker, err = c.world.Start(cfg); err != nil {
		return err
	}
	return c.waitForClockAlarm(ctx, s.worker)
}

// replaceWorker kills the worker of the slot, releases its held request, and starts another worker.
func (c *Campaign) replaceWorker(ctx context.Context, s *workerSlot, h *heldRequest) error {
	if err := s.worker.Kill(); err != nil {
		return err
	}
	c.summary.Kills++
	if h != nil {
		h.release <- false
	}
	return c.startWorker(ctx, s, "")
}
