package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser is the superuser role of every cluster.
const superuser = "postgres"

// Config describes a cluster. The zero value is a durable throw-away cluster.
type Config struct {
	// Dir is the directory for all files of the cluster. It is created if it is missing; an
	// existing cluster in it is used. Empty means a new directory, which [Server.Stop] removes.
	Dir string

	// Under is the directory in which a new Dir is created, for example to select a disk. It
	// defaults to /var/tmp.
	Under string

	// Binaries is the server to run. The zero value means the result of [Find].
	Binaries Binaries

	// Database is created if it is missing. It defaults to "oncegate".
	Database string

	// Volatile turns fsync off. This is faster, but a crash of the machine may leave the cluster
	// unusable. Use it only for tests that do not test durability. If Volatile is false,
	// PostgreSQL's durable defaults apply.
	Volatile bool

	// Settings are added to the command line of postgres, by name, for example "max_connections":
	// "400". They take precedence over the settings of this package.
	Settings map[string]string
}

// Server is a PostgreSQL server whose postmaster is a child of this process. Its methods are not safe for concurrent
// use, except PID, DSN and Done.
type Server struct {
	cfg       Config
	account   *account
	throwAway bool
	password  string
	port      int
	cmd       *exec.Cmd
	done      chan struct{} // closed when the postmaster of cmd has been reaped
}

// Start creates the cluster if it does not exist, starts its server as a child process and returns
// when the server accepts connections. It fails if a server is already running in the directory,
// because that server belongs to another process.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s, err := prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if pm, running := runningOn(ctx, s.data()); running {
		return nil, fmt.Errorf("starting PostgreSQL in %s: already running as process %d", s.cfg.Dir, pm.pid)
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	return s, nil
}

// prepare creates everything in the directory that starting a server requires.
func prepare(ctx context.Context, cfg Config) (*Server, error) {
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, account: account}
	if s.cfg.Database == "" {
		s.cfg.Database = "oncegate"
	}
	if s.cfg.Binaries == (Binaries{}) {
		if s.cfg.Binaries, err = Find(ctx); err != nil {
			return nil, err
		}
	}
	if s.cfg.Dir == "" {
		if s.cfg.Dir, err = os.MkdirTemp(cmp.Or(s.cfg.Under, "/var/tmp"), "oncegate-throwaway-"); err != nil {
			return nil, fmt.Errorf("making a directory for PostgreSQL: %w", err)
		}
		s.throwAway = true
	}
	if s.cfg.Dir, err = filepath.Abs(s.cfg.Dir); err != nil {
		return nil, fmt.Errorf("resolving %s: %w", s.cfg.Dir, err)
	}
	if err := s.lay(ctx); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	return s, nil
}

// LogPath returns the path of the server's log.
func (s *Server) LogPath() string { return filepath.Join(s.cfg.Dir, "log") }

// Dir returns the directory of the cluster.
func (s *Server) Dir() string { return s.cfg.Dir }

// Binaries returns the installation that the server runs from.
func (s *Server) Binaries() Binaries { return s.cfg.Binaries }

// start starts the server. It retries while another process has taken the port, or while processes
// of a killed postmaster still use the shared memory.
func (s *Server) start(ctx context.Context) error {
	const patience = 30 * time.Second
	deadline := time.Now().Add(patience)
	for {
		err := s.startOnce(ctx)
		if err == nil {
			return s.createDatabase(ctx)
		}
		message := err.Error()
		portTaken := strings.Contains(message, "Address already in use") || strings.Contains(message, "could not create any TCP/IP sockets")
		stillHeld := strings.Contains(message, "is still in use") || strings.Contains(message, "lock file")
		if ctx.Err() != nil || time.Now().After(deadline) || !portTaken && !stillHeld {
			return err
		}
		if portTaken {
			s.port = 0
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// startOnce starts the postmaster and waits until it accepts connections or ends.
func (s *Server) startOnce(ctx context.Context) error {
	if err := removeStale(ctx, s.data(), socketDir(s.cfg.Dir), s.clusterName()); err != nil {
		return err
	}
	if err := s.choosePort(); err != nil {
		return err
	}
	log, err := openLog(s.LogPath())
	if err != nil {
		return err
	}
	defer log.Close()
	begin, err := log.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("opening the log of PostgreSQL: %w", err)
	}
	// The server must outlive ctx, which limits only the start.
	cmd := exec.Command(s.cfg.Binaries.Path("postgres"), append([]string{"-D", s.data()}, s.settings()...)...) //nolint:gosec,noctx // a program of the installation we found
	cmd.Dir = "/"
	cmd.Env = s.cfg.Binaries.Env()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = s.account.attributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // its log contains the reason
	}()
	s.cmd, s.done = cmd, done
	for {
		if s.answers(ctx) == nil {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("starting PostgreSQL: it ended at once: %s", lastLines(logSince(s.LogPath(), begin), 5))
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("starting PostgreSQL: %w (log: %s)", ctx.Err(), s.LogPath()), s.Kill())
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// answers opens a connection and closes it, to check that the server accepts connections.
func (s *Server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.dsn("postgres"))
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	return conn.Close(ctx)
}

// createDatabase creates the database unless it exists.
func (s *Server) createDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.dsn("postgres"))
	if err != nil {
		return fmt.Errorf("creating database %s: %w", s.cfg.Database, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", s.cfg.Database).Scan(&exists); err != nil {
		return fmt.Errorf("creating database %s: %w", s.cfg.Database, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{s.cfg.Database}.Sanitize()); err != nil {
		return fmt.Errorf("creating database %s: %w", s.cfg.Database, err)
	}
	return nil
}

// PID returns the process id of the most recently started postmaster.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done returns a channel that is closed when the most recently started postmaster has been reaped.
func (s *Server) Done() <-chan struct{} { return s.done }

// DSN returns the address of the database, for the superuser over TCP. It contains the password. It
// stays the same across Kill and Restart unless another process takes the port in the meantime.
func (s *Server) DSN() string { return s.dsn(s.cfg.Database) }

func (s *Server) dsn(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     "127.0.0.1:" + strconv.Itoa(s.port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Kill sends SIGKILL to the postmaster and returns when it has been reaped. The server's backends
// notice and end by themselves. Killing a server that has ended is not an error.
func (s *Server) Kill() error { return s.signal(syscall.SIGKILL) }

// Restart starts the server again after [Server.Kill] or after it ended by itself, on the same data.
func (s *Server) Restart(ctx context.Context) error {
	select {
	case <-s.done:
	default:
		return fmt.Errorf("restarting PostgreSQL: process %d still runs", s.PID())
	}
	return s.start(ctx)
}

// Stop shuts the server down with PostgreSQL's fast shutdown, which disconnects clients and loses
// no data. It kills the server if ctx ends first, and removes the directory if [Start] created it.
// Calling Stop twice is not an error.
func (s *Server) Stop(ctx context.Context) error {
	err := s.shutDown(ctx)
	return errors.Join(err, s.discard())
}

func (s *Server) shutDown(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	default:
	}
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping PostgreSQL: %w", err)
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stopping PostgreSQL: %w", ctx.Err()), s.Kill())
	}
}

func (s *Server) signal(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling PostgreSQL: %w", err)
	}
	<-s.done
	return nil
}

// discard removes the directory of a throw-away cluster.
func (s *Server) discard() error {
	if !s.throwAway {
		return nil
	}
	if err := errors.Join(os.RemoveAll(s.cfg.Dir), os.RemoveAll(socketDir(s.cfg.Dir))); err != nil {
		return fmt.Errorf("removing the throw-away cluster: %w", err)
	}
	return nil
}
