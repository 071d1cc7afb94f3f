package devpg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Shared is a cluster that outlives the command that starts it. A keeper, a second process of the
// same program, runs the server as a child and stops it when every process that the cluster was
// started for has ended, even if it was killed.
type Shared struct {
	// Config describes the cluster. Its Dir must be set.
	Config Config

	// Keeper is the command that calls [Shared.Keep] with the same Config in a new process.
	Keeper []string
}

// StartOptions configures [Shared.Start].
type StartOptions struct {
	// Until is the id of the process that needs the cluster. Zero means that the cluster runs until
	// it is stopped.
	Until int

	// Fresh replaces the cluster with a new one unless it is already running. A cluster with
	// [Config.Volatile] needs this, because its files are unusable after a crash of the machine.
	Fresh bool
}

// Start returns the address of the cluster. It starts the cluster if it is not running.
func (c Shared) Start(ctx context.Context, opts StartOptions) (string, error) {
	if err := c.prepareDirs(); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, c.path("lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	s := &Server{cfg: c.Config}
	if s.cfg.Database == "" {
		s.cfg.Database = "oncegate"
	}
	pm, running := runningOn(ctx, s.data())
	if !running {
		if err := c.forgetUsers(); err != nil {
			return "", err
		}
		// A keeper without a server is about to end.
		if err := c.awaitKeeper(ctx); err != nil {
			return "", err
		}
		if opts.Fresh {
			if err := os.RemoveAll(s.data()); err != nil {
				return "", fmt.Errorf("making a fresh cluster: %w", err)
			}
		}
	}
	if err := c.register(opts.Until); err != nil {
		return "", err
	}
	if !running || !c.kept() {
		if err := c.spawnKeeper(); err != nil {
			return "", err
		}
		if pm, running = runningOn(ctx, s.data()); !running {
			return "", fmt.Errorf("starting PostgreSQL: it ended at once (log: %s)", s.LogPath())
		}
	}
	if err := s.readPassword(); err != nil {
		return "", err
	}
	s.port = pm.port
	if err := s.answers(ctx); err != nil {
		return "", fmt.Errorf("joining the PostgreSQL that runs in %s: %w", s.cfg.Dir, err)
	}
	if err := s.createDatabase(ctx); err != nil {
		return "", err
	}
	return s.DSN(), nil
}

// Stop stops the cluster, even if processes still use it. Stopping a cluster that is not running is
// not an error.
func (c Shared) Stop(ctx context.Context) error {
	if _, err := os.Stat(c.Config.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := lock(ctx, c.path("lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.forgetUsers(); err != nil {
		return err
	}
	if c.kept() {
		if err := c.signalKeeper(syscall.SIGTERM); err != nil {
			return err
		}
		return c.awaitKeeper(ctx)
	}
	s := &Server{cfg: c.Config}
	if pm, running := runningOn(ctx, s.data()); running {
		return adopt(ctx, s.data(), pm).stop(ctx)
	}
	return nil
}

// Address returns the address of the cluster. The second result is false if the cluster is not
// running.
func (c Shared) Address(ctx context.Context) (string, bool, error) {
	s := &Server{cfg: c.Config}
	if s.cfg.Database == "" {
		s.cfg.Database = "oncegate"
	}
	pm, running := runningOn(ctx, s.data())
	if !running {
		return "", false, nil
	}
	if err := s.readPassword(); err != nil {
		return "", false, err
	}
	s.port = pm.port
	return s.DSN(), true, nil
}

func (c Shared) path(name string) string { return filepath.Join(c.Config.Dir, name) }

func (c Shared) prepareDirs() error {
	account, err := serverAccount()
	if err != nil {
		return err
	}
	if err := makeDir(c.Config.Dir, 0o711, account); err != nil {
		return err
	}
	return makeDir(c.path("users"), 0o700, account)
}

// register records that the process pid uses the cluster.
func (c Shared) register(pid int) error {
	if err := os.WriteFile(filepath.Join(c.path("users"), strconv.Itoa(pid)), nil, 0o600); err != nil {
		return fmt.Errorf("noting who uses PostgreSQL: %w", err)
	}
	return nil
}

func (c Shared) forgetUsers() error {
	entries, err := os.ReadDir(c.path("users"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading who uses PostgreSQL: %w", err)
	}
	for _, entry := range entries {
		if err := os.Remove(filepath.Join(c.path("users"), entry.Name())); err != nil {
			return fmt.Errorf("forgetting who used PostgreSQL: %w", err)
		}
	}
	return nil
}

// used reports whether a process that uses the cluster still exists. The process number 0 means
// "until stopped".
func (c Shared) used(ctx context.Context) bool {
	entries, err := os.ReadDir(c.path("users"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // if the directory is gone, nothing uses the cluster any more
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if pid == 0 {
			return true
		}
		if _, ok := commandOf(ctx, pid); ok {
			return true
		}
		_ = os.Remove(filepath.Join(c.path("users"), entry.Name())) // if this fails, the file is only checked again
	}
	return false
}

// kept reports whether a keeper is running. A keeper holds its lock as long as it runs.
func (c Shared) kept() bool {
	f, err := tryLock(c.path("keeper.lock"))
	if err != nil {
		return true
	}
	_ = f.Close()
	return false
}

func (c Shared) awaitKeeper(ctx context.Context) error {
	unlock, err := lock(ctx, c.path("keeper.lock"))
	if err != nil {
		return fmt.Errorf("waiting for the keeper of PostgreSQL to end: %w", err)
	}
	unlock()
	return nil
}

func (c Shared) signalKeeper(sig syscall.Signal) error {
	content, err := os.ReadFile(c.path("keeper.lock"))
	if err != nil {
		return fmt.Errorf("finding the keeper of PostgreSQL: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("finding the keeper of PostgreSQL: %w", err)
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping the keeper of PostgreSQL: %w", err)
	}
	return nil
}

// spawnKeeper starts the keeper in a new session and waits until the keeper reports that the server
// accepts connections. The report arrives over a pipe that closes if the keeper dies.
func (c Shared) spawnKeeper() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting the keeper of PostgreSQL: %w", err)
	}
	defer r.Close()
	log, err := openLog(c.path("log"))
	if err != nil {
		return errors.Join(err, w.Close())
	}
	defer log.Close()
	cmd := exec.Command(c.Keeper[0], c.Keeper[1:]...) //nolint:gosec,noctx // our own program; it outlives the caller
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = w.Close() // our copy; the keeper has its own
	if err != nil {
		return fmt.Errorf("starting the keeper of PostgreSQL: %w", err)
	}
	word, _ := bufio.NewReader(r).ReadString('\n')
	switch word = strings.TrimSpace(word); word {
	case readyWord:
		return cmd.Process.Release()
	case "":
		return fmt.Errorf("starting PostgreSQL: its keeper ended (log: %s)", c.path("log"))
	default:
		_ = cmd.Wait() // the keeper has reported why it ends
		return errors.New(word)
	}
}

// lock waits for an exclusive lock on a file until ctx ends. The kernel releases the lock if the
// holder dies.
func lock(ctx context.Context, path string) (func(), error) {
	for {
		f, err := tryLock(path)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
	}
}

func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
	}
	return f, nil
}
