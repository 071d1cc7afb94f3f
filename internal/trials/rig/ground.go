package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
)

// Ground is what a campaign stands on that is a program: a directory, the binary in it, and a
// PostgreSQL of its own.
type Ground struct {
	Dir, Binary string
	Server      *devpg.Server
}

// NewGround makes the directory, builds the binary and starts PostgreSQL. What it made is
// in the ground also when it fails.
func NewGround(ctx context.Context, name string, cfg devpg.Config) (*Ground, error) {
	dir, err := os.MkdirTemp("", "oncegate-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	g := &Ground{Dir: dir, Binary: filepath.Join(dir, "oncegate")}
	if err := Build(ctx, "./cmd/oncegate", g.Binary); err != nil {
		return g, err
	}
	if g.Server, err = devpg.Start(ctx, cfg); err != nil {
		return g, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	return g, nil
}

// Close stops PostgreSQL and removes the directory.
func (g *Ground) Close() error {
	var err error
	if g.Server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err = g.Server.Stop(ctx)
	}
	return errors.Join(err, os.RemoveAll(g.Dir))
}
