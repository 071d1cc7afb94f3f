package kills

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/oncegate/oncegate/internal/trials/rig"
)

// seat is a place for one worker, which may be killed and followed by another:
// its targets and its way to PostgreSQL are its own.
type seat struct {
	number  int
	node    rig.NodeConfig
	proxy   *rig.Proxy
	targets []*target
	worker  *rig.Node
}

// newSeat makes a seat that nobody has taken. What it opened is in the seat also
// when it fails.
func (c *Campaign) newSeat(number int) (*seat, error) {
	s := &seat{number: number}
	var dsn string
	var err error
	if s.proxy, dsn, err = rig.StartProxy(c.world.DSN(), applyName, startWord); err != nil {
		return s, err
	}
	for _, r := range []Route{Idempotent, Once, Mail} {
		t, err := startTarget(number, r, c.ledger, c.script)
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

func (s *seat) close() error {
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

// take starts a worker in the seat and waits until it is ready. settings are more of
// its environment.
func (c *Campaign) take(ctx context.Context, s *seat, failpoint string, settings ...string) (err error) {
	cfg := s.node
	cfg.Env = slices.Concat(cfg.Env, settings)
	if cfg.Failpoint = failpoint; failpoint == "" {
		cfg.Failpoint = c.options.Wrong.failpoint()
	}
	c.summary.Starts++
	if failpoint != clockAhead {
		s.worker, err = c.world.Serve(ctx, cfg)
		return err
	}
	if s.worker, err = c.world.Start(cfg); err != nil {
		return err
	}
	return c.alarmed(ctx, s.worker)
}

// again kills the worker of the seat, lets the target go on, and starts another.
func (c *Campaign) again(ctx context.Context, s *seat, h *held) error {
	if err := s.worker.Kill(); err != nil {
		return err
	}
	c.summary.Kills++
	if h != nil {
		h.release <- false
	}
	return c.take(ctx, s, "")
}
