package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// StartStandby creates a hot standby of the server and returns when it accepts connections. The
// standby streams from the server under the given name, which synchronous_standby_names can list.
// It has the server's settings and a separate directory, which [Server.Stop] removes.
func (s *Server) StartStandby(ctx context.Context, name string) (*Server, error) {
	standby, err := s.backup(ctx, name, "-R")
	if err != nil {
		return nil, err
	}
	if err := standby.start(ctx); err != nil {
		return nil, errors.Join(err, standby.discard())
	}
	return standby, nil
}

// Backup takes a base backup of the server. It returns a server that contains the backup and does not run yet: [Server.Recover]
// starts it.
func (s *Server) Backup(ctx context.Context) (*Server, error) { return s.backup(ctx, "backup") }

func (s *Server) backup(ctx context.Context, name string, options ...string) (*Server, error) {
	out := &Server{cfg: s.cfg, account: s.account, throwAway: true, done: make(chan struct{})}
	close(out.done) // no postmaster runs yet
	var err error
	if out.cfg.Dir, err = os.MkdirTemp(cmp.Or(s.cfg.Under, "/var/tmp"), "oncegate-"+name+"-"); err != nil {
		return nil, fmt.Errorf("making a directory for a copy of the server: %w", err)
	}
	if err := out.copyFrom(ctx, s, name, options...); err != nil {
		return nil, errors.Join(err, out.discard())
	}
	if err := out.lay(ctx); err != nil {
		return nil, errors.Join(err, out.discard())
	}
	return out, nil
}

// Recover starts a server from its base backup and recovers it to a point in time, as PostgreSQL's manual describes it: it replays the
// write-ahead log of the other server, which must have ended, up to the last commit before the time, and begins a new timeline. It
// returns when the server accepts writes.
func (s *Server) Recover(ctx context.Context, archive *Server, to time.Time) error {
	signal := filepath.Join(s.data(), "recovery.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return fmt.Errorf("recovering to a point in time: %w", err)
	}
	if err := s.account.own(signal); err != nil {
		return fmt.Errorf("recovering to a point in time: %w", err)
	}
	settings := maps.Clone(s.cfg.Settings)
	if settings == nil {
		settings = map[string]string{}
	}
	settings["restore_command"] = "cp '" + filepath.Join(archive.data(), "pg_wal") + "/%f' '%p'"
	settings["recovery_target_time"] = to.UTC().Format("2006-01-02 15:04:05.999999+00")
	settings["recovery_target_action"] = "promote"
	s.cfg.Settings = settings
	if err := s.start(ctx); err != nil {
		return err
	}
	for {
		recovering, err := s.inRecovery(ctx)
		if err != nil {
			return fmt.Errorf("recovering to a point in time: %w", err)
		}
		if !recovering {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *Server) inRecovery(ctx context.Context) (recovering bool, err error) {
	conn, err := pgx.Connect(ctx, s.dsn("postgres"))
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return recovering, conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&recovering)
}

// Promote makes a standby a primary and returns when it accepts writes.
func (s *Server) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.dsn("postgres"))
	if err != nil {
		return fmt.Errorf("promoting a standby: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var promoted bool
	if err := conn.QueryRow(ctx, "SELECT pg_promote(true, 60)").Scan(&promoted); err != nil || !promoted {
		return fmt.Errorf("promoting a standby: promoted=%t: %w", promoted, err)
	}
	return nil
}

// Rejoin makes a server that has ended a standby of another server. The server keeps its address
// and loses its data.
func (s *Server) Rejoin(ctx context.Context, primary *Server, name string) error {
	var err error
	for range 20 { // its last processes may still be ending
		if err = os.RemoveAll(s.data()); err == nil {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("clearing %s: %w", s.data(), err)
	}
	if err := s.copyFrom(ctx, primary, name, "-R"); err != nil {
		return err
	}
	return s.start(ctx)
}

// Crash kills all processes of the server at once, as a power failure of its machine would, and
// returns when the postmaster has been reaped.
func (s *Server) Crash() error {
	children, err := childrenOf(s.PID())
	if err != nil {
		return err
	}
	if err := s.Kill(); err != nil {
		return err
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing process %d of PostgreSQL: %w", pid, err)
		}
	}
	return nil
}

// ShutDown ends the server with a fast shutdown and keeps its directory. Its standbys have received
// all data when it returns.
func (s *Server) ShutDown(ctx context.Context) error { return s.shutDown(ctx) }

// Freeze stops the server's processes, like a machine that hangs: connections stay open and the
// server does not respond. Call Thaw before [Server.Kill] and [Server.Stop].
func (s *Server) Freeze() error { return s.signalAll(syscall.SIGSTOP) }

// Thaw undoes [Server.Freeze].
func (s *Server) Thaw() error { return s.signalAll(syscall.SIGCONT) }

// signalAll signals the postmaster first, so that it starts no more processes, and then its
// children.
func (s *Server) signalAll(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signalling PostgreSQL: %w", err)
	}
	children, err := childrenOf(s.PID())
	if err != nil {
		return err
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signalling process %d of PostgreSQL: %w", pid, err)
		}
	}
	return nil
}

// childrenOf returns the ids of a process's children. Like [commandOf] it reads /proc if that exists.
func childrenOf(parent int) ([]int, error) {
	var children []int
	add := func(pid int, rest string) {
		var ppid int
		if _, err := fmt.Sscan(rest, &ppid); err == nil && ppid == parent {
			children = append(children, pid)
		}
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		files, _ := filepath.Glob("/proc/[0-9]*/stat") // only a malformed pattern is an error
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				continue // it has ended
			}
			// "pid (name) state ppid ...", and the name may have parentheses and spaces.
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if at := strings.LastIndex(string(content), ") "); at > 0 && len(content) > at+4 {
				add(pid, string(content[at+4:]))
			}
		}
		return children, nil
	}
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output() //nolint:noctx // it ends at once
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		var pid int
		if _, err := fmt.Sscan(line, &pid); err == nil {
			_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			add(pid, rest)
		}
	}
	return children, nil
}

// copyFrom takes a base backup of the primary and copies its password. The option -R makes it a standby.
func (s *Server) copyFrom(ctx context.Context, primary *Server, name string, options ...string) error {
	if err := makeDir(s.cfg.Dir, 0o711, s.account); err != nil {
		return err
	}
	if err := makeDir(s.data(), 0o700, s.account); err != nil {
		return err
	}
	password := filepath.Join(s.cfg.Dir, "password")
	if err := os.WriteFile(password, []byte(primary.password), 0o600); err != nil {
		return fmt.Errorf("keeping the password of the standby: %w", err)
	}
	if err := errors.Join(s.account.own(s.data()), s.account.own(password)); err != nil {
		return fmt.Errorf("making %s: %w", s.data(), err)
	}
	from := "host=127.0.0.1 port=" + strconv.Itoa(primary.port) + " user=" + superuser + " password=" + primary.password + " application_name=" + name
	cmd := exec.CommandContext(ctx, s.cfg.Binaries.Path("pg_basebackup"), append([]string{"-d", from, "-D", s.data(), "-X", "stream", "-c", "fast"}, options...)...) //nolint:gosec // a program of the installation we found
	cmd.Dir = "/"
	cmd.Env = s.cfg.Binaries.Env()
	cmd.SysProcAttr = s.account.attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copying the primary: %w: %s", err, lastLines(string(out), 3))
	}
	return nil
}
