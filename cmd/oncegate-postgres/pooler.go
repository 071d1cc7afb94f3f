package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/oncegate/oncegate/internal/devpg"
)

// obtainPooler returns the PgBouncer of the machine or, on a Debian-based system, one that it
// unpacks into dir. It never installs PgBouncer, because Debian's package would start a server.
func obtainPooler(ctx context.Context, dir string, progress io.Writer) (string, error) {
	program, err := devpg.FindPooler()
	if err == nil || !errors.Is(err, devpg.ErrNoPooler) {
		return program, err
	}
	program = filepath.Join(dir, "packages/root/usr/sbin/pgbouncer")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	fmt.Fprintf(progress, "no PgBouncer on this machine: unpacking the system's packages into %s\n", dir)
	if err := unpack(ctx, dir, "pgbouncer"); err != nil {
		return "", errors.Join(devpg.ErrNoPooler, err)
	}
	if _, err := os.Stat(program); err != nil {
		return "", errors.Join(devpg.ErrNoPooler, err)
	}
	return program, nil
}
