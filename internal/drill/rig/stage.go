package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Stage is what one run plays on: a schema, a configuration, and everything that was started for the run.
type Stage struct {
	// Schema is the schema of the tables. The names of the nodes' logs begin with it.
	Schema string

	// Config is the path of the nodes' configuration, once [Stage.Configure] has written it.
	Config string

	// Variables are environment variables of every node, as NAME=VALUE.
	Variables []string

	host *Host

	mu   sync.Mutex
	ends []func() error
}

// NewStage returns a stage on which nothing was started yet.
func NewStage(h *Host, schema string, variables ...string) *Stage {
	return &Stage{Schema: schema, Variables: variables, host: h}
}

// OnEnd has End call a function.
func (s *Stage) OnEnd(end func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, end)
}

// End ends everything that was started, the last thing first.
func (s *Stage) End() error {
	s.mu.Lock()
	ends := s.ends
	s.ends = nil
	s.mu.Unlock()
	var errs []error
	for _, end := range slices.Backward(ends) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// DropSchema drops the schema and everything in it.
func (s *Stage) DropSchema(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{s.Schema}.Sanitize()+" CASCADE"); err != nil {
		return fmt.Errorf("dropping schema %s: %w", s.Schema, err)
	}
	return nil
}

// Configure writes the configuration.
func (s *Stage) Configure(format string, args ...any) (err error) {
	s.Config, err = s.host.WriteFile(s.Schema+".yml", fmt.Sprintf(format, args...))
	return err
}

// Target starts a target and returns its address.
func (s *Stage) Target(handler http.Handler) (address string, err error) {
	t, err := StartTarget(handler)
	if err != nil {
		return "", err
	}
	s.OnEnd(t.Close)
	return t.Address, nil
}

// Listener starts a server whose connections a function serves, and returns its address. Its clients must end before it.
func (s *Stage) Listener(serve func(net.Conn)) (address string, err error) {
	l, err := StartServer(serve)
	if err != nil {
		return "", err
	}
	s.OnEnd(l.Close)
	return l.Address, nil
}

// Proxy starts a proxy in front of PostgreSQL, as [StartProxy] does. An empty dsn is the host's own.
func (s *Stage) Proxy(dsn string, words ...string) (*Proxy, string, error) {
	p, dsn, err := StartProxy(cmp.Or(dsn, s.host.Database), words...)
	if err == nil {
		s.OnEnd(p.Close)
	}
	return p, dsn, err
}

// Serve is [Host.Serve] for a node on the stage. Its schema is the stage's, its configuration too unless it names another,
// and its name follows the schema.
func (s *Stage) Serve(ctx context.Context, cfg NodeConfig) (*Node, error) {
	n, err := s.host.Serve(ctx, s.Node(cfg))
	if err == nil {
		s.OnEnd(n.Kill)
	}
	return n, err
}

// Start is [Stage.Serve] without waiting.
func (s *Stage) Start(cfg NodeConfig) (*Node, error) {
	n, err := s.host.Start(s.Node(cfg))
	if err == nil {
		s.OnEnd(n.Kill)
	}
	return n, err
}

// Node completes the settings of a node or a command.
func (s *Stage) Node(cfg NodeConfig) NodeConfig {
	if cfg.Name != "" {
		cfg.Name = "-" + cfg.Name
	}
	cfg.Name, cfg.Config, cfg.Schema, cfg.Env = s.Schema+cfg.Name, cmp.Or(cfg.Config, s.Config), s.Schema, slices.Concat(s.Variables, cfg.Env)
	return cfg
}
