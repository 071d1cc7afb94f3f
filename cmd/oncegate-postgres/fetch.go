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

// repositoryVariable names another repository of PostgreSQL archives than the library's own, for networks in which
// that one cannot be reached. It has Maven's layout.
const repositoryVariable = "ONCEGATE_POSTGRES_REPOSITORY"

// fetchedVersion is the release that is fetched when the machine has none.
const fetchedVersion = embeddedpostgres.V17

// find returns the PostgreSQL server of the machine, or one that obtain has left in dir.
func find(ctx context.Context, dir string) (devpg.Binaries, error) {
	return devpg.Find(ctx, append(unpacked(dir), filepath.Join(dir, "bin"))...)
}

// obtain returns the PostgreSQL server of the machine, or brings one into dir: from the system's packages, else from a
// repository of embedded ones, which is asked first if the user names it.
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

// fetch lets the library download and unpack an archive. The library does so only on the way to a running server, so
// one is started on a throw-away data directory and stopped; when that last part fails the binaries may still be
// good (as root it always fails, since PostgreSQL refuses root), and the caller looks at them itself.
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
		// No socket: where the programs were built to put it, an ordinary user may not write.
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
	// The library sets no limit of its own to the download.
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

// freePort finds a port below the ephemeral range on which nobody listens, for the moments that the fetched server is
// tried: any of them, so that two who look at once do not meet. It does not listen itself, because a program that is
// started at that instant would keep the port for a moment.
func freePort(ctx context.Context) (uint32, error) {
	dialer := net.Dialer{Timeout: 200 * time.Millisecond}
	for range 100 {
		port := 20000 + rand.Uint32N(1000) //nolint:gosec // a port is no secret
		conn, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("localhost:%d", port))
		if err != nil {
			return port, ctx.Err()
		}
		_ = conn.Close() // somebody's
	}
	return 0, errors.New("fetching PostgreSQL: no free port between 20000 and 20999")
}

// advice says what a person can install.
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
