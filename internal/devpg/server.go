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

// superuser is the role that every cluster is made with.
const superuser = "postgres"

// Config describes a cluster. The zero value is a durable throw-away cluster.
type Config struct {
	// Dir holds everything of the cluster; it is made when missing, and a cluster that is already in it is used. Empty
	// means a new directory, which [Server.Stop] removes.
	Dir string

	// Under is where a new directory is made: on the disk that is to be used. It defaults to /var/tmp.
	Under string

	// Binaries is the server to run. The zero value means what [Find] finds.
	Binaries Binaries

	// Database is created when missing. It defaults to "oncegate".
	Database string

	// Volatile turns fsync off: faster, and a crash of the machine may leave the cluster unusable. Only for tests that
	// do not test durability; the zero value keeps PostgreSQL's durable defaults.
	Volatile bool

	// Settings are added to the command line of postgres, by name, for example "max_connections": "400". They win over
	// the settings this package makes.
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

// Start makes the cluster when there is none yet, starts its server as a child and returns when it answers. A server
// that is already running on the directory is an error: it belongs to somebody else.
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

// prepare brings the directory into the state in which a server can be started on it.
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

// LogPath is the file that the server writes its log to.
func (s *Server) LogPath() string { return filepath.Join(s.cfg.Dir, "log") }

// Dir is the directory that holds everything of the cluster.
func (s *Server) Dir() string { return s.cfg.Dir }

// Binaries is the installation the server runs from.
func (s *Server) Binaries() Binaries { return s.cfg.Binaries }

// start starts the server, trying again while the port is taken by somebody who was faster, or while processes of a
// killed postmaster still hold the shared memory.
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

// startOnce starts the postmaster and waits until it answers or ends.
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
	// The server must outlive ctx, which bounds only its start.
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
		_ = cmd.Wait() // how it ended is in its log
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

// answers opens one connection and closes it.
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

// PID is the process id of the postmaster that was started last.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done is closed when the postmaster that was started last has ended and been reaped.
func (s *Server) Done() <-chan struct{} { return s.done }

// DSN is the address of the database, for the superuser over TCP. It holds the password; it stays the same across
// Kill and Restart unless the port was taken meanwhile.
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

// Kill sends SIGKILL to the postmaster and returns when it has been reaped. Its backends notice and end by
// themselves. Killing a server that has ended is no error.
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

// Stop shuts the server down in order (PostgreSQL's fast shutdown: clients are cut, nothing is lost), kills it if ctx
// ends first, and removes the directory if it was made for this server. Stopping twice is no error.
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
