package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/trials/rig"
)

// server is a process that serves, or the place of one that was killed.
type server struct {
	number        int
	public, admin string
	config, log   string
	binary        string
	env           []string

	mu      sync.Mutex
	process *rig.Process // nil while there is none
	variant variant
}

func newServer(w *rig.Ground, number int) (*server, error) {
	s := &server{
		number: number, binary: w.Binary,
		config: filepath.Join(w.Dir, fmt.Sprintf("server%d.yml", number)), log: filepath.Join(w.Dir, fmt.Sprintf("server%d.log", number)),
	}
	var err, err2 error
	s.public, err = rig.FreeAddress()
	s.admin, err2 = rig.FreeAddress()
	s.env = append(environment(w, s.config), "ONCEGATE_PUBLIC="+s.public, "ONCEGATE_ADMIN="+s.admin)
	return s, errors.Join(err, err2)
}

// environment is that of every command. ONCEGATE_ACTOR is added by whoever acts.
func environment(w *rig.Ground, config string) []string {
	return []string{"DATABASE_URL=" + w.Server.DSN(), "ONCEGATE_SCHEMA=" + schema, "OPERATORS_SECRET=" + secret(), "ONCEGATE_CONFIG=" + config}
}

// start starts the process with a configuration and waits until it serves.
func (s *server) start(ctx context.Context, v variant, text string) error {
	if err := writeWhole(s.config, text); err != nil {
		return err
	}
	p, err := rig.Start(s.log, s.env, s.binary, "serve")
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process, s.variant = p, v
	s.mu.Unlock()
	timed, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := p.Listening(timed, s.public); err != nil {
		return fmt.Errorf("starting server %d (%s): %w", s.number, v.name, err)
	}
	return nil
}

// running is the process, or nil.
func (s *server) running() *rig.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// end ends the process, by SIGKILL or by SIGTERM. It reports whether it had ended by
// itself.
func (s *server) end(kill bool) (byItself bool, err error) {
	p := s.running()
	if p == nil {
		return false, nil
	}
	byItself = !p.Running()
	if kill {
		err = p.Kill()
	} else {
		err = p.Stop(40 * time.Second)
	}
	s.mu.Lock()
	s.process = nil
	s.mu.Unlock()
	return byItself, err
}

// A killed process counts as live for half a minute, and as one that may still seal for
// ten, and a campaign knows that it is dead: it lets that time pass.
const buryNodes = `
UPDATE node SET heartbeat = heartbeat - interval '11 minutes'
WHERE heartbeat > now() - interval '10 minutes' AND NOT name LIKE ANY ($1::text[])`

// restart ends a process and starts it with another configuration.
func (c *campaign) restart(ctx context.Context, s *server, v variant, kill bool) error {
	byItself, err := s.end(kill)
	if err != nil {
		return err
	}
	if byItself {
		c.violate(violation{crashed, fmt.Sprintf("server %d (%s) ended by itself", s.number, s.variant.name)})
	}
	if kill {
		if err := c.bury(ctx); err != nil {
			return err
		}
	}
	return s.start(ctx, v, v.text(c.keyring(), c.sink.addresses))
}

// bury tells the table of nodes who is dead.
func (c *campaign) bury(ctx context.Context) error {
	alive := []string{}
	for _, s := range c.servers {
		if p := s.running(); p != nil {
			alive = append(alive, fmt.Sprintf("%%%d", p.PID()), fmt.Sprintf("%%%d-%%", p.PID()))
		}
	}
	if _, err := c.db.Exec(ctx, buryNodes, slices.Clip(alive)); err != nil {
		return fmt.Errorf("burying nodes: %w", err)
	}
	return nil
}
