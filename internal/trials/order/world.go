package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/trials/rig"
)

const secret = "whsec_order_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes

// world is what the variants share: a PostgreSQL of their own, the binary as it is
// shipped, and one with fail points.
type world struct {
	*rig.Ground
	failing string
}

// newWorld builds and starts it all. What it started is in the world also when it
// fails.
func newWorld(ctx context.Context) (*world, error) {
	ground, err := rig.NewGround(ctx, "order", devpg.Config{Settings: map[string]string{"max_connections": "500", "shared_buffers": "512MB"}})
	if ground == nil {
		return nil, err
	}
	w := &world{ground, filepath.Join(ground.Dir, "oncegate-failpoint")}
	return w, errors.Join(err, rig.Build(ctx, "./cmd/oncegate", w.failing, "failpoint"))
}

// connect opens a connection whose search_path is the schema.
func (w *world) connect(ctx context.Context, schema string) (*pgx.Conn, error) {
	return rig.Connect(ctx, w.Server.DSN(), schema)
}

// process is a running binary and where it answers.
type process struct {
	*rig.Process
	public, admin string
}

// deadlocks counts those that the server has reported.
func (w *world) deadlocks() (int, error) {
	content, err := os.ReadFile(w.Server.LogPath())
	if err != nil {
		return 0, fmt.Errorf("reading the server's log: %w", err)
	}
	return bytes.Count(content, []byte("deadlock detected")), nil
}

// serve starts the binary in one role, with a fail point if one is named, and waits
// until it is ready.
func (w *world) serve(ctx context.Context, schema, role, failpoint string) (*process, error) {
	return w.serveAt(ctx, w.Server.DSN(), schema, role, failpoint)
}

// serveAt is serve for a process that reaches the server another way.
func (w *world) serveAt(ctx context.Context, dsn, schema, role, failpoint string) (*process, error) {
	public, err1 := rig.FreeAddress()
	admin, err2 := rig.FreeAddress()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	env := []string{
		"DATABASE_URL=" + dsn, "ONCEGATE_SCHEMA=" + schema, "ORDER_SECRET=" + secret, "LOG_LEVEL=warn",
		"ONCEGATE_PUBLIC=" + public, "ONCEGATE_ADMIN=" + admin,
	}
	log := filepath.Join(w.Dir, schema+"."+role+".log")
	binary := w.Binary
	if failpoint != "" {
		binary = w.failing
		env = append(env, "ONCEGATE_FAILPOINT="+failpoint)
	}
	p, err := rig.Start(log, env, binary, "serve", "--config", filepath.Join(w.Dir, schema+".yml"), "--role", role)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := p.Ready(ctx, "http://"+admin+"/readyz"); err != nil {
		content, _ := os.ReadFile(log)
		return nil, errors.Join(fmt.Errorf("starting a %s process: %w: %s", role, err, content[max(0, len(content)-1000):]), p.Kill())
	}
	return &process{p, public, admin}, nil
}
