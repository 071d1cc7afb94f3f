package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/devpg"
	"github.com/oncegate/oncegate/cmd/internal/rig"
)

// schema is where the campaign's tables are; the PostgreSQL is its own.
const schema = "operators"

// world is a PostgreSQL and the binary. PostgreSQL is not killed, so it need not be
// durable.
type world struct {
	dir, binary string
	server      *devpg.Server
}

// newWorld builds and starts it. What it started is in the world also when it fails.
func newWorld(ctx context.Context) (*world, error) {
	dir, err := os.MkdirTemp("", "oncegate-operators-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	w := &world{dir: dir, binary: filepath.Join(dir, "oncegate")}
	if err := rig.Build(ctx, "./cmd/oncegate", w.binary); err != nil {
		return w, err
	}
	if w.server, err = devpg.Start(ctx, devpg.Config{Volatile: true, Settings: map[string]string{"max_connections": "300"}}); err != nil {
		return w, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	return w, nil
}

func (w *world) close() error {
	var err error
	if w.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err = w.server.Stop(ctx)
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}
