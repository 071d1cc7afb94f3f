package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// server is a process that serves, or the place of one that was killed. Its addresses, its configuration and its log
// outlive the process.
type server struct {
	number int
	stage  *lab.Campaign
	node   rig.NodeConfig

	mu      sync.Mutex
	running *rig.Node // nil while there is none
	variant variant
}

func newServer(c *lab.Campaign, number int) (*server, error) {
	name := fmt.Sprintf("server%d", number)
	s := &server{number: number, stage: c, node: rig.NodeConfig{Name: name, Config: filepath.Join(c.Dir, name+".yml")}}
	return s, s.node.ChooseAddresses()
}

// environ is the environment of the commands that are run with this server's configuration.
func (s *server) environ(more ...string) []string {
	cfg := s.stage.Node(rig.NodeConfig{Config: s.node.Config, Env: more})
	return s.stage.Environ(&cfg)
}

// log is the path of the server's log.
func (s *server) log() string { return filepath.Join(s.stage.Dir, s.stage.Node(s.node).Name+".log") }

// configure writes the configuration.
func (s *server) configure(text string) error {
	_, err := s.stage.WriteFile(s.node.Name+".yml", text)
	return err
}

// start starts the process with a configuration and waits until it takes connections.
func (s *server) start(ctx context.Context, v variant, text string) error {
	if err := s.configure(text); err != nil {
		return err
	}
	n, err := s.stage.Start(s.node)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.running, s.variant = n, v
	s.mu.Unlock()
	if err := n.WaitListening(ctx, n.Public); err != nil {
		return fmt.Errorf("server %d (%s): %w", s.number, v.name, err)
	}
	return nil
}

// process is the running process, or nil.
func (s *server) process() *rig.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// stop ends the process, by SIGKILL or by SIGTERM. It reports whether the process had ended by itself.
func (s *server) stop(kill bool) (byItself bool, err error) {
	n := s.process()
	if n == nil {
		return false, nil
	}
	byItself = !n.Running()
	if kill {
		err = n.Kill()
	} else {
		err = n.Stop(40 * time.Second)
	}
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	return byItself, err
}

// A killed process counts as live for half a minute, and may still seal for ten. The campaign knows that it is dead, so
// it lets that time pass at once.
const markNodesDead = `
UPDATE node SET heartbeat = heartbeat - interval '11 minutes'
WHERE heartbeat > now() - interval '10 minutes' AND NOT name LIKE ANY ($1::text[])`

// restart ends a process and starts it with another configuration.
func (c *campaign) restart(ctx context.Context, s *server, v variant, kill bool) error {
	byItself, err := s.stop(kill)
	if err != nil {
		return err
	}
	if byItself {
		c.violate(rig.NewViolation(crashed, "server %d (%s) ended by itself", s.number, s.variant.name))
	}
	if kill {
		if err := c.markDead(ctx); err != nil {
			return err
		}
	}
	return s.start(ctx, v, v.text(c.keyring(), c.addresses))
}

// markDead marks the nodes as dead that the campaign has killed.
func (c *campaign) markDead(ctx context.Context) error {
	alive := []string{}
	for _, s := range c.servers {
		if p := s.process(); p != nil {
			alive = append(alive, fmt.Sprintf("%%%d", p.PID()), fmt.Sprintf("%%%d-%%", p.PID()))
		}
	}
	if _, err := c.db.Exec(ctx, markNodesDead, slices.Clip(alive)); err != nil {
		return fmt.Errorf("burying nodes: %w", err)
	}
	return nil
}
