package rig

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Host starts nodes of one program.
type Host struct {
	// Dir is the directory of the configurations and logs.
	Dir string

	// Binary is the path of the program, and Failing the path of the program with fail points. Failing may be empty.
	Binary, Failing string

	// Database is the connection string of nodes that name none.
	Database string

	// Env are environment variables of every node, as NAME=VALUE.
	Env []string

	// Apart starts every node in a new process group, so that Ctrl-C at a terminal reaches only this process. It then stops
	// the nodes in order.
	Apart bool
}

// NodeConfig says how a node is started.
type NodeConfig struct {
	// Name names the node's log, which is <Name>.log in the host's directory. Nodes of one name append to one log.
	Name string

	// Config is the path of the configuration. Schema is the schema of the tables.
	Config, Schema string

	// Role is what the node does, such as "receive". If it is empty, the node does everything.
	Role string

	// DSN is how the node reaches PostgreSQL. If it is empty, the node connects directly.
	DSN string

	// Public and Admin are the node's addresses. An empty one is chosen by Start.
	Public, Admin string

	// Failpoint is where the binary with fail points kills itself, such as "gate-before-commit:7". If it is empty, the
	// node runs the released binary.
	Failpoint string

	// OpenFiles limits how many files the node may have open. 0 does not change the limit.
	OpenFiles int

	// Env are additional environment variables, as NAME=VALUE.
	Env []string
}

// Node is a running process of Oncegate.
type Node struct {
	*Process

	// Public is the address for deliveries, and Admin the private one.
	Public, Admin string

	// Log is the path of its log.
	Log string

	failpoint string
}

// readyWithin is how long a node may take until it is ready. A machine that does much else at the same time is slow.
const readyWithin = time.Minute

// Environ returns the environment of a node and of the commands of an operator.
func (h *Host) Environ(cfg *NodeConfig) []string {
	env := []string{"DATABASE_URL=" + cmp.Or(cfg.DSN, h.Database), "ONCEGATE_SCHEMA=" + cfg.Schema, "ONCEGATE_CONFIG=" + cfg.Config}
	if cfg.Public != "" {
		env = append(env, "ONCEGATE_PUBLIC="+cfg.Public)
	}
	if cfg.Admin != "" {
		env = append(env, "ONCEGATE_ADMIN="+cfg.Admin)
	}
	return slices.Concat(h.Env, env, cfg.Env)
}

// ChooseAddresses chooses the addresses that are empty, for a node that is started again at the same ones.
func (cfg *NodeConfig) ChooseAddresses() (err error) {
	for _, address := range []*string{&cfg.Public, &cfg.Admin} {
		if *address == "" && err == nil {
			*address, err = FreeAddress()
		}
	}
	return err
}

// Start starts a node and does not wait for it.
func (h *Host) Start(cfg NodeConfig) (*Node, error) {
	if err := cfg.ChooseAddresses(); err != nil {
		return nil, err
	}
	program, args, env := h.Binary, []string{"serve"}, h.Environ(&cfg)
	if cfg.Failpoint != "" {
		program, env = h.Failing, append(env, "ONCEGATE_FAILPOINT="+cfg.Failpoint)
	}
	if cfg.Role != "" {
		args = append(args, "--role", cfg.Role)
	}
	if cfg.OpenFiles > 0 {
		args = append([]string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(cfg.OpenFiles), program}, args...)
		program = "/bin/sh"
	}
	n := &Node{Public: cfg.Public, Admin: cfg.Admin, Log: filepath.Join(h.Dir, cfg.Name+".log"), failpoint: cfg.Failpoint}
	var err error
	n.Process, err = start(n.Log, env, h.Apart, program, args)
	return n, err
}

// Serve starts a node and waits until it is ready. A node with a fail point may end before: that is no error. Any other
// node that does not become ready is killed, and the error quotes the end of its log.
func (h *Host) Serve(ctx context.Context, cfg NodeConfig) (*Node, error) {
	n, err := h.Start(cfg)
	if err != nil {
		return nil, err
	}
	err = n.WaitReady(ctx)
	if err != nil && cfg.Failpoint != "" && errors.Is(err, ErrEnded) {
		return n, nil
	}
	if err != nil {
		return nil, errors.Join(err, n.Kill())
	}
	return n, nil
}

// WaitReady waits until the node says that it is ready.
func (n *Node) WaitReady(ctx context.Context) error {
	timed, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := n.Ready(timed, "http://"+n.Admin+"/readyz"); err != nil {
		return fmt.Errorf("starting a node: %w: %s", err, n.Tail())
	}
	return nil
}

// WaitListening waits until the node takes connections at an address, whether or not it is ready.
func (n *Node) WaitListening(ctx context.Context, address string) error {
	timed, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := n.Listening(timed, address); err != nil {
		return fmt.Errorf("starting a node: %w: %s", err, n.Tail())
	}
	return nil
}

// SourceURL is where the deliveries of a source go.
func (n *Node) SourceURL(source string) string { return "http://" + n.Public + "/in/" + source }

// Failpoint is the fail point that the node was started with.
func (n *Node) Failpoint() string { return n.failpoint }

// logQuote is how much of a log an error quotes.
const logQuote = 2000

// Tail is the end of the node's log.
func (n *Node) Tail() string { return TailFile(n.Log) }

// TailFile is the end of a log, or why it cannot be read.
func TailFile(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-logQuote):])
}

// Logged reports whether a line of the node's log contains all the words.
func (n *Node) Logged(words ...string) (bool, error) {
	content, err := os.ReadFile(n.Log)
	if err != nil {
		return false, fmt.Errorf("reading a log: %w", err)
	}
	for line := range bytes.Lines(content) {
		missing := slices.ContainsFunc(words, func(word string) bool { return !bytes.Contains(line, []byte(word)) })
		if !missing {
			return true, nil
		}
	}
	return false, nil
}

// WriteFile writes a file of the directory, such as a configuration, and returns its path. The file is replaced in one
// step, because a process may be reading it.
func (h *Host) WriteFile(name, text string) (path string, err error) {
	path = filepath.Join(h.Dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	return path, nil
}
