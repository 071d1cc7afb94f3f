package kills

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// workerSlot is a place for one worker. When a worker is killed, another one takes its slot. The slot has its own
// targets and its own proxy to PostgreSQL, so that the campaign knows whose request a target is holding.
type workerSlot struct {
	number int
	node   rig.NodeConfig
	proxy  *rig.Proxy
	worker *rig.Node
}

// newWorkerSlot makes a slot without a worker.
func (c *Campaign) newWorkerSlot(number int) (*workerSlot, error) {
	s := &workerSlot{number: number, node: rig.NodeConfig{Name: strconv.Itoa(number), Role: "work"}}
	var err error
	if s.proxy, s.node.DSN, err = c.Proxy("", applyWord, sendStartWord); err != nil {
		return s, err
	}
	for r, variable := range map[Route]string{Idempotent: "KILLS_IDEMPOTENT=http://%s/", Once: "KILLS_ONCE=http://%s/", Mail: "KILLS_MAIL=smtp://%s"} {
		t := &target{slot: number, route: r, received: c.received, script: c.script}
		address, err := c.Listener(t.serve)
		if err != nil {
			return s, err
		}
		s.node.Env = append(s.node.Env, fmt.Sprintf(variable, address))
		if r == Idempotent {
			s.node.Env = append(s.node.Env, "FAILPOINT_URL=http://"+address+"/")
		}
	}
	return s, nil
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
		s.worker, err = c.Serve(ctx, cfg)
		return err
	}
	if s.worker, err = c.Start(cfg); err != nil {
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
