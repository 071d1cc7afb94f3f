package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// errNoPackages is returned on a system that is not based on Debian.
var errNoPackages = errors.New("no apt-get and dpkg-deb on this machine")

// unpacked returns the program directories of servers that unpack has stored in dir.
func unpacked(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "packages/root/usr/lib/postgresql/*/bin")) // only a malformed pattern is an error
	return found
}

// unpack extracts a program from the packages of a Debian-based system as an ordinary user: apt-get
// keeps its lists and archives in dir, and nothing is installed. The packages' installation scripts
// do not run, because a private cluster does not need them, and the PgBouncer that Debian would
// start is not wanted.
func unpack(ctx context.Context, dir, name string) error {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return errNoPackages
		}
	}
	packages := filepath.Join(dir, "packages")
	unpacking := "unpacking " + name
	root := filepath.Join(packages, "root")
	for _, d := range []string{"lists/partial", "archives/partial", "root"} {
		if err := os.MkdirAll(filepath.Join(packages, d), 0o755); err != nil { //nolint:gosec // the account that runs the server must read it
			return fmt.Errorf("%s: %w", unpacking, err)
		}
	}
	apt := []string{
		"-q", "-o", "Dir::State=" + packages, "-o", "Dir::State::status=/var/lib/dpkg/status", "-o", "Dir::Cache=" + packages,
		"-o", "Debug::NoLocking=true",
	}
	if err := run(ctx, unpacking, "apt-get", append(apt, "update")...); err != nil {
		return err
	}
	err := run(ctx, unpacking, "apt-get", append(apt, "install", "--download-only", "--yes", "--no-install-recommends", name)...)
	if err != nil {
		return err
	}
	archives, _ := filepath.Glob(filepath.Join(packages, "archives/*.deb")) // only a malformed pattern is an error
	for _, archive := range archives {
		if err := run(ctx, unpacking, "dpkg-deb", "--extract", archive, root); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program. Its error contains the last line of the program's output.
func run(ctx context.Context, step, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // one of two fixed programs of the system
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = bytes.TrimSpace(out)
		return fmt.Errorf("%s: %s: %w: %s", step, program, err, out[bytes.LastIndexByte(out, '\n')+1:])
	}
	return nil
}
