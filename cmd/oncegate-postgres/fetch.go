package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"github.com/oncegate/oncegate/internal/devpg"
)

// repositoryVariable names an alternative repository of PostgreSQL archives, for networks that
// cannot reach the library's repository. It must have Maven's layout.
const repositoryVariable = "ONCEGATE_POSTGRES_REPOSITORY"

// fetchedVersion is the release that is downloaded if the machine has none.
const fetchedVersion = embeddedpostgres.V17

// find returns the PostgreSQL server of the machine, or one that obtain has stored in dir.
func find(ctx context.Context, dir string) (devpg.Binaries, error) {
	return devpg.Find(ctx, append(unpacked(dir), filepath.Join(dir, "bin"))...)
}

// obtain returns the PostgreSQL server of the machine, or downloads one into dir: from the system's
// packages, otherwise from a repository of embedded servers. If the user names a repository, it is
// tried first.
func obtain(ctx context.Context, dir string, progress io.Writer) (devpg.Binaries, error) {
	binaries, err := find(ctx, dir)
	if err == nil || !errors.Is(err, devpg.ErrNoBinaries) {
		return binaries, err
	}
	var problems []error
	repository := os.Getenv(repositoryVariable)
	if repository == "" {
		fmt.Fprintf(progress, "no PostgreSQL %d or newer on this machine: unpacking the system's packages into %s\n", devpg.MinMajor, dir)
		problems = append(problems, unpack(ctx, dir, "postgresql"))
		if binaries, err = find(ctx, dir); err == nil {
			return binaries, nil
		}
	}
	fmt.Fprintf(progress, "no PostgreSQL %d or newer on this machine: fetching %s into %s\n", devpg.MinMajor, fetchedVersion, dir)
	problems = append(problems, fetch(ctx, dir, repository))
	if binaries, err = find(ctx, dir); err == nil {
		return binaries, nil
	}
	return devpg.Binaries{}, fmt.Errorf("%w\n%s", errors.Join(append([]error{err}, problems...)...), advice())
}

// fetch makes the library download and unpack an archive. The library does so only when it starts a
// server, so fetch starts one on a throw-away data directory and stops it. If only the start fails,
// the binaries may still be usable (as root the start always fails, because PostgreSQL refuses
// root), and the caller checks them itself.
func fetch(ctx context.Context, dir, repository string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the account that runs the server must read it
		return fmt.Errorf("fetching PostgreSQL: %w", err)
	}
	scratch, err := os.MkdirTemp(dir, "scratch-")
	if err != nil {
		return fmt.Errorf("fetching PostgreSQL: %w", err)
	}
	defer os.RemoveAll(scratch)
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	var log bytes.Buffer
	cfg := embeddedpostgres.DefaultConfig().
		Version(fetchedVersion).
		Port(port).
		CachePath(dir).
		BinariesPath(dir).
		RuntimePath(filepath.Join(scratch, "run")).
		DataPath(filepath.Join(scratch, "data")).
		// Use no socket, because an ordinary user may not write to the default directory of
		// sockets.
		StartParameters(map[string]string{"unix_socket_directories": ""}).
		Logger(&log)
	if repository != "" {
		cfg = cfg.BinaryRepositoryURL(repository)
	}
	server := embeddedpostgres.NewDatabase(cfg)
	tried := make(chan error, 1)
	go func() {
		if err := server.Start(); err != nil {
			tried <- err
			return
		}
		tried <- server.Stop()
	}()
	// The library itself does not limit the duration of the download.
	select {
	case err = <-tried:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("fetching PostgreSQL: %w", err)
	}
	return nil
}

// freePort returns an unused port below the ephemeral range for the short trial of the downloaded
// server. It chooses at random, so that two processes do not choose the same port. It does not
// listen on the port, because a program that is started at that moment would inherit the listener
// for a moment.
func freePort(ctx context.Context) (uint32, error) {
	dialer := net.Dialer{Timeout: 200 * time.Millisecond}
	for range 100 {
		port := 20000 + rand.Uint32N(1000) //nolint:gosec // a port is no secret
		conn, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("localhost:%d", port))
		if err != nil {
			return port, ctx.Err()
		}
		_ = conn.Close() // in use
	}
	return 0, errors.New("fetching PostgreSQL: no free port between 20000 and 20999")
}

// advice explains what the user can install.
func advice() string {
	how := "install PostgreSQL 15 or newer (its programs initdb and postgres) with your system's package manager"
	switch runtime.GOOS {
	case "linux":
		how += "; on Debian or Ubuntu: sudo apt-get install postgresql; on Fedora: sudo dnf install postgresql-server"
	case "darwin":
		how += "; with Homebrew: brew install postgresql@17"
	}
	return how + "; or set DATABASE_URL (for ./scripts/run) or TEST_DATABASE_URL (for ./scripts/test) to a PostgreSQL you already have" +
		"; or set " + repositoryVariable + " to a repository of embedded PostgreSQL archives that this machine can reach"
}
