package kills

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/internal/trials/rig"
)

// seat is a place for one worker, which may be killed and followed by another:
// its targets and its way to PostgreSQL are its own.
type seat struct {
	number  int
	admin   string
	log     string
	env     []string
	proxy   *rig.Proxy
	targets []*target
	process *rig.Process
}

// newSeat makes a seat that nobody has taken. What it opened is in the seat also
// when it fails.
func (c *Campaign) newSeat(number int) (*seat, error) {
	s := &seat{number: number, log: filepath.Join(c.world.dir, c.schema+"-"+strconv.Itoa(number)+".log")}
	var dsn string
	var err error
	if s.proxy, dsn, err = rig.StartProxy(c.world.server.DSN(), applyName, startWord); err != nil {
		return s, err
	}
	if s.admin, err = rig.FreeAddress(); err != nil {
		return s, err
	}
	s.env = append(c.environment(), "DATABASE_URL="+dsn, "ONCEGATE_ADMIN="+s.admin)
	for _, r := range []Route{Idempotent, Once, Mail} {
		t, err := startTarget(number, r, c.ledger, c.script)
		if err != nil {
			return s, err
		}
		s.targets = append(s.targets, t)
	}
	s.env = append(s.env, "KILLS_IDEMPOTENT=http://"+s.targets[0].address()+"/", "KILLS_ONCE=http://"+s.targets[1].address()+"/",
		"KILLS_MAIL=smtp://"+s.targets[2].address(), "FAILPOINT_URL=http://"+s.targets[0].address()+"/")
	return s, nil
}

func (s *seat) close() error {
	var errs []error
	if s.process != nil {
		errs = append(errs, s.process.Kill())
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
func (c *Campaign) take(ctx context.Context, s *seat, failpoint string, settings ...string) error {
	binary, env := c.world.shipped, append(slices.Clip(s.env), settings...)
	if failpoint == "" {
		failpoint = c.options.Wrong.failpoint()
	}
	if failpoint != "" {
		binary, env = c.world.failing, append(env, "ONCEGATE_FAILPOINT="+failpoint)
	}
	p, err := rig.Start(s.log, env, binary, "serve", "--config", c.config, "--role", "work")
	if err != nil {
		return err
	}
	s.process = p
	c.summary.Starts++
	timed, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if failpoint == clockAhead {
		return c.alarmed(timed, p, s.admin, s.log)
	}
	err = p.Ready(timed, "http://"+s.admin+"/readyz")
	if failpoint != "" && errors.Is(err, rig.ErrEnded) {
		return nil // it passed the point at once
	}
	if err != nil {
		return fmt.Errorf("starting worker %d: %w: %s", s.number, err, tail(s.log))
	}
	return nil
}

// again kills the worker of the seat, lets the target go on, and starts another.
func (c *Campaign) again(ctx context.Context, s *seat, h *held) error {
	if err := s.process.Kill(); err != nil {
		return err
	}
	c.summary.Kills++
	if h != nil {
		h.release <- false
	}
	return c.take(ctx, s, "")
}

func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-2000):])
}
